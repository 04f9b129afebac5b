#include "reduced/blended_links.hpp"

#include <algorithm>
#include <cmath>

#include "reduced/link_blocks.hpp"
#include "spatial/spatial.hpp"

namespace supple {

namespace {

// In a linear model, the rotation of a link is proportional to the displacement of the end effector, without bound.
// Beyond free_turn (rad) the twist is scaled down so that the rotation stays below a quarter turn. Otherwise two models
// could have rotations half a turn apart, where the mean of their quaternions is discontinuous. This can still happen
// if the models were made with such rotations.
constexpr double free_turn = 1.2, largest_turn = 1.55;

// The factor for a twist with the rotation `angle`; its first two derivatives are continuous.
double bounded_turn(double angle) {
    if (angle <= free_turn) return 1;
    const double rest = largest_turn - free_turn;
    return (free_turn + rest * std::tanh((angle - free_turn) / rest)) / angle;
}

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
                model.maps[((static_cast<std::size_t>(i / width) * m + j) * 6 + k) * width +
                           l] = maps[(6 * from + k) * m + j];
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
        for (int i = count * thread / threads; i < count * (thread + 1) / threads; ++i)
            published ? run_published(use, i, poses) : run(use, i, poses);
    });
}

// Algorithm 4 as printed: H^(1) exp(sum_i alpha_i log(H^(1)^-1 H^(i))) with the nearest model as base (eqs. 26 to 28).
void BlendedLinks::run_published(const std::vector<Use>& use, int index, double* poses) const {
    const std::size_t nearest = std::max_element(use.begin(), use.end(),
                                                 [](auto& a, auto& b) { return a.weight < b.weight; }) -
                                use.begin();
    std::vector<Pose> shown(use.size());
    for (int l = 0; l < width && index * width + l < n_; ++l) {
        for (std::size_t i = 0; i < use.size(); ++i) {
            const Model& model = models_[use[i].model];
            const Block& block = model.blocks[index];
            const double* map = model.maps.data() + static_cast<std::size_t>(index) * model.m * 6 * width;
            Vec6 twist;
            for (int k = 0; k < 6; ++k) {
                twist[k] = block.offset[k][l];
                for (int j = 0; j < model.m; ++j) twist[k] += map[(6 * j + k) * width + l] * use[i].y[j];
            }
            Pose made;
            for (int k = 0; k < 9; ++k) made.R(k / 3, k % 3) = block.rotation[k][l];
            for (int k = 0; k < 3; ++k) made.p[k] = block.place[k][l];
            shown[i] = made * exp(twist);
        }
        Vec6 sum = Vec6::Zero();
        for (std::size_t i = 0; i < use.size(); ++i) sum += use[i].weight * log(shown[i].seen_from(shown[nearest]));
        const Pose mean = shown[nearest] * exp(sum);
        double* pose = poses + 16 * static_cast<std::size_t>(index * width + l);
        for (int r = 0; r < 3; ++r) {
            for (int c = 0; c < 3; ++c) pose[4 * r + c] = mean.R(r, c);
            pose[4 * r + 3] = mean.p[r];
        }
    }
}

void BlendedLinks::run(const std::vector<Use>& use, int index, double* poses) const {
    const Eight none = every(0);
    Eight Q[4] = {none, none, none, none}, D[4] = {none, none, none, none};  // sums of a q and a p q
    for (const Use& each : use) {
        const Model& model = models_[each.model];
        const Block& block = model.blocks[index];
        const double* map = model.maps.data() + static_cast<std::size_t>(index) * model.m * 6 * width;
        auto [vx, vy, vz, wx, wy, wz] = twists_of(block.offset, map, model.m, each.y);
        Eight s = wx * wx + wy * wy + wz * wz;
        if (largest(s) > free_turn * free_turn) {
            alignas(64) double scales[width];
            store(scales, s);
            for (double& scale : scales) scale = bounded_turn(std::sqrt(scale));
            const Eight by = load(scales);
            for (Eight* part : {&vx, &vy, &vz, &wx, &wy, &wz}) *part *= by;
            s *= by * by;
        }
        const Eight quarter = 0.25 * s;
        // cos(|w|/2), sin(|w|/2)/|w| and (|w| - sin|w|)/|w|^3
        const Eight ew = stumpff<0, 11>(quarter), half = 0.5 * stumpff<1, 11>(quarter), third = stumpff<3>(s);
        // exp: turn (c, half w), move t = v + b w x v + third w x (w x v) with b = 2 half^2
        const Eight cx = wy * vz - wz * vy, cy = wz * vx - wx * vz, cz = wx * vy - wy * vx, b = 2.0 * half * half;
        const Eight tx = vx + b * cx + third * (wy * cz - wz * cy);
        const Eight ty = vy + b * cy + third * (wz * cx - wx * cz);
        const Eight tz = vz + b * cz + third * (wx * cy - wy * cx);
        const Eight ex = half * wx, ey = half * wy, ez = half * wz;
        const Eight rw = load(block.turn[0]), rx = load(block.turn[1]), ry = load(block.turn[2]),
                    rz = load(block.turn[3]);
        const Eight qw = rw * ew - rx * ex - ry * ey - rz * ez, qx = rw * ex + rx * ew + ry * ez - rz * ey;
        const Eight qy = rw * ey - rx * ez + ry * ew + rz * ex, qz = rw * ez + rx * ey - ry * ex + rz * ew;
        const auto& R = block.rotation;
        const Eight px = load(block.place[0]) + load(R[0]) * tx + load(R[1]) * ty + load(R[2]) * tz;
        const Eight py = load(block.place[1]) + load(R[3]) * tx + load(R[4]) * ty + load(R[5]) * tz;
        const Eight pz = load(block.place[2]) + load(R[6]) * tx + load(R[7]) * ty + load(R[8]) * tz;
        const Eight alignment = Q[0] * qw + Q[1] * qx + Q[2] * qy + Q[3] * qz;
        const Eight a = choose(alignment < none, every(-each.weight), every(each.weight));
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
    Eight out[16] = {1.0 - yy - zz, xy - wz,       xz + wy,       scale * (dx * w - dw * x - dy * z + dz * y),
                     xy + wz,       1.0 - xx - zz, yz - wx,       scale * (dy * w - dw * y - dz * x + dx * z),
                     xz - wy,       yz + wx,       1.0 - xx - yy, scale * (dz * w - dw * z - dx * y + dy * x)};
    const int first = index * width;
    write_poses(out, poses + 16 * static_cast<std::size_t>(first), std::min(width, n_ - first));
}

}  // namespace supple
