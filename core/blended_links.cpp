#include "blended_links.hpp"

#include <algorithm>
#include <cmath>

#include "spatial.hpp"

namespace supple {

namespace {

// A linear model turns a link without bound as the end effector moves on. Beyond free_turn (rad) its twist is scaled down so that
// it never turns a link by a quarter turn: two models then cannot show a link half a turn apart, where the mean of their
// quaternions is discontinuous, unless they were made with that link turned differently.
constexpr double free_turn = 1.2, largest_turn = 1.55;

// The factor of a twist that turns by `angle`; its first two derivatives are continuous.
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
        for (int i = count * thread / threads; i < count * (thread + 1) / threads; ++i)
            published ? run_published(use, i, poses) : run(use, i, poses);
    });
}

// Algorithm 4 as printed: H^(1) exp(sum_i alpha_i log(H^(1)^-1 H^(i))) with the nearest model as base (eqs. 26 to 28).
void BlendedLinks::run_published(const std::vector<Use>& use, int index, double* poses) const {
    const std::size_t nearest =
        std::max_element(use.begin(), use.end(), [](auto& a, auto& b) { return a.weight < b.weight; }) - use.begin();
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
    alignas(64) double Q[4][width] = {}, D[4][width] = {};  // sums of a q and a p q
    for (const Use& each : use) {
        const Model& model = models_[each.model];
        const Block& block = model.blocks[index];
        alignas(64) double x[6][width], s[width], quarter[width], c[width], half[width], third[width];
        for (int k = 0; k < 6; ++k)
            for (int l = 0; l < width; ++l) x[k][l] = block.offset[k][l];
        const double* map = model.maps.data() + static_cast<std::size_t>(index) * model.m * 6 * width;
        for (int j = 0; j < model.m; ++j, map += 6 * width) {
            const double y = each.y[j];
            for (int k = 0; k < 6; ++k)
                for (int l = 0; l < width; ++l) x[k][l] += map[k * width + l] * y;
        }
        double largest = 0;
        for (int l = 0; l < width; ++l) {
            s[l] = x[3][l] * x[3][l] + x[4][l] * x[4][l] + x[5][l] * x[5][l];
            quarter[l] = 0.25 * s[l];
            largest = std::max(largest, s[l]);
        }
        if (largest > free_turn * free_turn) {
            for (int l = 0; l < width; ++l) {
                const double scale = bounded_turn(std::sqrt(s[l]));
                for (int k = 0; k < 6; ++k) x[k][l] *= scale;
                s[l] *= scale * scale;
                quarter[l] = 0.25 * s[l];
            }
        }
        // cos(|w|/2), sin(|w|/2)/|w| and (|w| - sin|w|)/|w|^3
        store(c, stumpff<0, 11>(load(quarter)));
        store(half, stumpff<1, 11>(load(quarter)));
        store(third, stumpff<3>(load(s)));
        for (int l = 0; l < width; ++l) half[l] *= 0.5;
        for (int l = 0; l < width; ++l) {
            // exp: turn (c, half w), move t = v + b w x v + third w x (w x v) with b = 2 half^2
            const double vx = x[0][l], vy = x[1][l], vz = x[2][l], wx = x[3][l], wy = x[4][l], wz = x[5][l];
            const double cx = wy * vz - wz * vy, cy = wz * vx - wx * vz, cz = wx * vy - wy * vx;
            const double b = 2 * half[l] * half[l];
            const double tx = vx + b * cx + third[l] * (wy * cz - wz * cy);
            const double ty = vy + b * cy + third[l] * (wz * cx - wx * cz);
            const double tz = vz + b * cz + third[l] * (wx * cy - wy * cx);
            const double ex = half[l] * wx, ey = half[l] * wy, ez = half[l] * wz, ew = c[l];
            const double rw = block.turn[0][l], rx = block.turn[1][l], ry = block.turn[2][l], rz = block.turn[3][l];
            const double qw = rw * ew - rx * ex - ry * ey - rz * ez, qx = rw * ex + rx * ew + ry * ez - rz * ey;
            const double qy = rw * ey - rx * ez + ry * ew + rz * ex, qz = rw * ez + rx * ey - ry * ex + rz * ew;
            const auto& R = block.rotation;
            const double px = block.place[0][l] + R[0][l] * tx + R[1][l] * ty + R[2][l] * tz;
            const double py = block.place[1][l] + R[3][l] * tx + R[4][l] * ty + R[5][l] * tz;
            const double pz = block.place[2][l] + R[6][l] * tx + R[7][l] * ty + R[8][l] * tz;
            const double same = Q[0][l] * qw + Q[1][l] * qx + Q[2][l] * qy + Q[3][l] * qz;
            const double a = same < 0 ? -each.weight : each.weight;
            Q[0][l] += a * qw;
            Q[1][l] += a * qx;
            Q[2][l] += a * qy;
            Q[3][l] += a * qz;
            D[0][l] -= a * (px * qx + py * qy + pz * qz);
            D[1][l] += a * (px * qw + py * qz - pz * qy);
            D[2][l] += a * (py * qw + pz * qx - px * qz);
            D[3][l] += a * (pz * qw + px * qy - py * qx);
        }
    }
    alignas(64) double out[12][width];
    for (int l = 0; l < width; ++l) {
        const double w = Q[0][l], x = Q[1][l], y = Q[2][l], z = Q[3][l];
        const double scale = 1 / (w * w + x * x + y * y + z * z), two = 2 * scale;
        const double xx = two * x * x, yy = two * y * y, zz = two * z * z;
        const double xy = two * x * y, xz = two * x * z, yz = two * y * z;
        const double wx = two * w * x, wy = two * w * y, wz = two * w * z;
        out[0][l] = 1 - yy - zz;
        out[1][l] = xy - wz;
        out[2][l] = xz + wy;
        out[4][l] = xy + wz;
        out[5][l] = 1 - xx - zz;
        out[6][l] = yz - wx;
        out[8][l] = xz - wy;
        out[9][l] = yz + wx;
        out[10][l] = 1 - xx - yy;
        // vector part of D conj(Q)
        const double dw = D[0][l], dx = D[1][l], dy = D[2][l], dz = D[3][l];
        out[3][l] = scale * (dx * w - dw * x - dy * z + dz * y);
        out[7][l] = scale * (dy * w - dw * y - dz * x + dx * z);
        out[11][l] = scale * (dz * w - dw * z - dx * y + dy * x);
    }
    const int first = index * width, count = std::min(width, n_ - first);
    for (int l = 0; l < count; ++l) {
        double* pose = poses + 16 * static_cast<std::size_t>(first + l);
        for (int k = 0; k < 12; ++k) pose[k] = out[k][l];
    }
}

}  // namespace supple
