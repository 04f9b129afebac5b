#include "blended_links.hpp"

#include <algorithm>
#include <cmath>

#include "link_blocks.hpp"
#include "spatial.hpp"

namespace supple {

namespace {

Eigen::Vector4d quaternion(const Mat3& R) {
    const Eigen::Quaterniond q(R);
    return {q.w(), q.x(), q.y(), q.z()};
}

}  // namespace

void BlendedLinks::add(const double* rest, const double* maps, int m) {
    const int count = (n_ + width - 1) / width;
    Model model{m, std::vector<Block>(count), std::vector<double>(static_cast<std::size_t>(count) * m * 6 * width)};
    for (int i = 0; i < count * width; ++i) {
        const int from = std::min(i, n_ - 1), l = i % width;
        Block& block = model.blocks[i / width];
        Mat3 R;
        for (int r = 0; r < 3; ++r) {
            for (int c = 0; c < 3; ++c) block.rotation[3 * r + c][l] = R(r, c) = rest[16 * from + 4 * r + c];
            block.place[r][l] = rest[16 * from + 4 * r + 3];
        }
        const Eigen::Vector4d q = quaternion(R);
        for (int k = 0; k < 4; ++k) block.turn[k][l] = q[k];
        for (int k = 0; k < 6; ++k) {
            block.offset[k][l] = 0;
            for (int j = 0; j < m; ++j)
                model.maps[((static_cast<std::size_t>(i / width) * m + j) * 6 + k) * width + l] =
                    maps[(6 * from + k) * m + j];
        }
    }
    models_.push_back(std::move(model));
}

void BlendedLinks::set_offsets(int model, const double* twists) {
    std::vector<Block>& blocks = models_[model].blocks;
    for (int i = 0; i < static_cast<int>(blocks.size()) * width; ++i)
        for (int k = 0; k < 6; ++k) blocks[i / width].offset[k][i % width] = twists[6 * std::min(i, n_ - 1) + k];
}

void BlendedLinks::update(const std::vector<Use>& use, double* poses) {
    const int count = (n_ + width - 1) / width;
    team_.run([&](int thread, int threads) {
        for (int i = count * thread / threads; i < count * (thread + 1) / threads; ++i) run(use, i, poses);
    });
}

void BlendedLinks::run(const std::vector<Use>& use, int index, double* poses) const {
    const Eight none = every(0);
    Eight Q[4] = {none, none, none, none}, D[4] = {none, none, none, none};  // sums of a q and a p q
    for (const Use& each : use) {
        const Model& model = models_[each.model];
        const Block& block = model.blocks[index];
        const double* map = model.maps.data() + static_cast<std::size_t>(index) * model.m * 6 * width;
        const auto [vx, vy, vz, wx, wy, wz] = twists_of(block.offset, map, model.m, each.y);
        const Eight s = wx * wx + wy * wy + wz * wz, quarter = 0.25 * s;
        Eight ew, half, third;  // cos(|w|/2), sin(|w|/2)/|w| and (|w| - sin|w|)/|w|^3
        if (largest(s) <= 10.0) {
            ew = stumpff<0, 11>(quarter);
            half = 0.5 * stumpff<1, 11>(quarter);
            third = stumpff<3>(s);
        } else {
            alignas(64) double of[4][width];
            store(of[0], s);
            for (int l = 0; l < width; ++l) {
                const Stumpff small = stumpff(0.25 * of[0][l]), whole = stumpff(of[0][l]);
                of[1][l] = small[0];
                of[2][l] = 0.5 * small[1];
                of[3][l] = whole[3];
            }
            ew = load(of[1]);
            half = load(of[2]);
            third = load(of[3]);
        }
        // exp: turn (c, half w), move t = v + b w x v + third w x (w x v) with b = 2 half^2
        const Eight cx = wy * vz - wz * vy, cy = wz * vx - wx * vz, cz = wx * vy - wy * vx, b = 2.0 * half * half;
        const Eight tx = vx + b * cx + third * (wy * cz - wz * cy);
        const Eight ty = vy + b * cy + third * (wz * cx - wx * cz);
        const Eight tz = vz + b * cz + third * (wx * cy - wy * cx);
        const Eight ex = half * wx, ey = half * wy, ez = half * wz;
        const Eight rw = load(block.turn[0]), rx = load(block.turn[1]), ry = load(block.turn[2]), rz = load(block.turn[3]);
        const Eight qw = rw * ew - rx * ex - ry * ey - rz * ez, qx = rw * ex + rx * ew + ry * ez - rz * ey;
        const Eight qy = rw * ey - rx * ez + ry * ew + rz * ex, qz = rw * ez + rx * ey - ry * ex + rz * ew;
        const auto& R = block.rotation;
        const Eight px = load(block.place[0]) + load(R[0]) * tx + load(R[1]) * ty + load(R[2]) * tz;
        const Eight py = load(block.place[1]) + load(R[3]) * tx + load(R[4]) * ty + load(R[5]) * tz;
        const Eight pz = load(block.place[2]) + load(R[6]) * tx + load(R[7]) * ty + load(R[8]) * tz;
        const Eight same = Q[0] * qw + Q[1] * qx + Q[2] * qy + Q[3] * qz;
        const Eight a = choose(same < none, every(-each.weight), every(each.weight));
        Q[0] += a * qw;
        Q[1] += a * qx;
        Q[2] += a * qy;
        Q[3] += a * qz;
        D[0] -= a * (px * qx + py * qy + pz * qz);
        D[1] += a * (px * qw + py * qz - pz * qy);
        D[2] += a * (py * qw + pz * qx - px * qz);
        D[3] += a * (pz * qw + px * qy - py * qx);
    }
    const Eight w = Q[0], x = Q[1], y = Q[2], z = Q[3];
    const Eight scale = 1.0 / (w * w + x * x + y * y + z * z), two = 2.0 * scale;
    const Eight xx = two * x * x, yy = two * y * y, zz = two * z * z;
    const Eight xy = two * x * y, xz = two * x * z, yz = two * y * z;
    const Eight wx = two * w * x, wy = two * w * y, wz = two * w * z;
    // rotation of Q, and the vector part of D conj(Q)
    const Eight dw = D[0], dx = D[1], dy = D[2], dz = D[3];
    Eight out[16] = {1.0 - yy - zz, xy - wz, xz + wy, scale * (dx * w - dw * x - dy * z + dz * y),
                     xy + wz, 1.0 - xx - zz, yz - wx, scale * (dy * w - dw * y - dz * x + dx * z),
                     xz - wy, yz + wx, 1.0 - xx - yy, scale * (dz * w - dw * z - dx * y + dy * x)};
    const int first = index * width;
    write_poses(out, poses + 16 * static_cast<std::size_t>(first), std::min(width, n_ - first));
}

}  // namespace supple
