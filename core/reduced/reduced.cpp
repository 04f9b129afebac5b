#include "reduced/reduced.hpp"

#include <algorithm>
#include <cmath>

#include "reduced/link_blocks.hpp"
#include "spatial/abreast_exp.hpp"

namespace supple {

// --- links ----------------------------------------------------------------------------------------------------------

Links::Links(const double* rest, const double* maps, int n, int m, int threads) : n_(n), m_(m), team_(threads) {
    const int count = (n + width - 1) / width;
    blocks_.resize(count);
    maps_.assign(static_cast<std::size_t>(count) * m * 6 * width, 0.0);
    for (int i = 0; i < count * width; ++i) {
        const int from = std::min(i, n - 1), l = i % width;
        Block& block = blocks_[i / width];
        for (int r = 0; r < 3; ++r) {
            for (int c = 0; c < 3; ++c) block.rest[3 * r + c][l] = rest[16 * from + 4 * r + c];
            block.rest[9 + r][l] = rest[16 * from + 4 * r + 3];
        }
        for (int k = 0; k < 6; ++k) {
            block.offset[k][l] = 0;
            for (int j = 0; j < m; ++j)
                maps_[((static_cast<std::size_t>(i / width) * m + j) * 6 + k) * width + l] = maps[(6 * from + k) * m +
                                                                                                  j];
        }
    }
}

void Links::set_offsets(const double* twists) {
    for (int i = 0; i < static_cast<int>(blocks_.size()) * width; ++i)
        for (int k = 0; k < 6; ++k) blocks_[i / width].offset[k][i % width] = twists[6 * std::min(i, n_ - 1) + k];
}

void Links::update(const double* y, double* poses) {
    y_ = y;
    poses_ = poses;
    team_.run([this](int thread, int threads) {
        const int count = static_cast<int>(blocks_.size());
        for (int i = count * thread / threads; i < count * (thread + 1) / threads; ++i) run(blocks_[i], i);
    });
}

void Links::run(const Block& block, int index) {
    const double* map = maps_.data() + static_cast<std::size_t>(index) * m_ * 6 * width;
    const auto [vx, vy, vz, wx, wy, wz] = twists_of(block.offset, map, m_, y_);
    const Eight s = wx * wx + wy * wy + wz * wz;
    Eight a, b, c;
    if (largest(s) <= 10.0) {
        b = stumpff<2>(s);
        c = stumpff<3>(s);
        a = 1.0 - s * c;
    } else {
        alignas(64) double of[4][width];
        store(of[0], s);
        for (int l = 0; l < width; ++l) {
            const Stumpff g = stumpff(of[0][l]);
            for (int k = 1; k < 4; ++k) of[k][l] = g[k];
        }
        a = load(of[1]);
        b = load(of[2]);
        c = load(of[3]);
    }
    // exp: E = I + a [w] + b [w]^2 and t = v + b w x v + c w x (w x v)
    const Eight cx = wy * vz - wz * vy, cy = wz * vx - wx * vz, cz = wx * vy - wy * vx;
    const Eight tx = vx + b * cx + c * (wy * cz - wz * cy);
    const Eight ty = vy + b * cy + c * (wz * cx - wx * cz);
    const Eight tz = vz + b * cz + c * (wx * cy - wy * cx);
    const Eight xx = b * wx * wx, yy = b * wy * wy, zz = b * wz * wz;
    const Eight xy = b * wx * wy, xz = b * wx * wz, yz = b * wy * wz;
    const Eight ax = a * wx, ay = a * wy, az = a * wz;
    const Eight e00 = 1.0 - yy - zz, e01 = xy - az, e02 = xz + ay;
    const Eight e10 = xy + az, e11 = 1.0 - xx - zz, e12 = yz - ax;
    const Eight e20 = xz - ay, e21 = yz + ax, e22 = 1.0 - xx - yy;
    // rest pose times exp
    Eight out[16];
    for (int r = 0; r < 3; ++r) {
        const Eight r0 = load(block.rest[3 * r]), r1 = load(block.rest[3 * r + 1]), r2 = load(block.rest[3 * r + 2]);
        out[4 * r] = r0 * e00 + r1 * e10 + r2 * e20;
        out[4 * r + 1] = r0 * e01 + r1 * e11 + r2 * e21;
        out[4 * r + 2] = r0 * e02 + r1 * e12 + r2 * e22;
        out[4 * r + 3] = load(block.rest[9 + r]) + r0 * tx + r1 * ty + r2 * tz;
    }
    const int first = index * width;
    write_poses(out, poses_ + 16 * static_cast<std::size_t>(first), std::min(width, n_ - first));
}

void Links::update_velocities(const double* y, const double* v, double* twists) {
    static constexpr double none[6][width] = {};
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
        const double* map = maps_.data() + i * m_ * 6 * width;
        const Twists xi = twists_of(blocks_[i].offset, map, m_, y), rate = twists_of(none, map, m_, v);
        const Six at = {{xi.vx, xi.vy, xi.vz}, {xi.wx, xi.wy, xi.wz}};
        Eight rows[8] = {};
        set(rows, pushed_forward(at, angles(at.angular), {{rate.vx, rate.vy, rate.vz}, {rate.wx, rate.wy, rate.wz}}));
        transpose(rows);
        const int first = static_cast<int>(i) * width;
        for (int l = 0; l < width && first + l < n_; ++l)
            std::memcpy(twists + 6 * (first + l), &rows[l], 6 * sizeof(double));
    }
}

// --- the model ------------------------------------------------------------------------------------------------------

// Whether a symmetric matrix is positive definite (its Cholesky factorisation exists).
static bool positive_definite(Matrix a) {
    const Eigen::Index n = a.rows();
    for (Eigen::Index k = 0; k < n; ++k) {
        if (!(a(k, k) > 0)) return false;
        for (Eigen::Index i = k + 1; i < n; ++i) {
            const double factor = a(i, k) / a(k, k);
            for (Eigen::Index j = k + 1; j <= i; ++j) a(i, j) -= factor * a(j, k);
        }
    }
    return true;
}

// -dg/dxi of g = Jr(xi)^T w at xi = 0, for a wrench w = (f, tau) at the origin of a tip, in its axes, that is fixed in
// the world or in the tip. Jr^T contributes -1/2 ad(xi)^T w, and a wrench fixed in the world changes by ([f], [tau])
// times the rotation.
static Mat6 wrench_geometric_stiffness(const Vec6& wrench, bool world) {
    const Mat3 f = skew(Vec3(wrench.head<3>())), tau = skew(Vec3(wrench.tail<3>()));
    Mat6 K = Mat6::Zero();
    K.topRightCorner<3, 3>() = 0.5 * f;
    K.bottomLeftCorner<3, 3>() = 0.5 * f;
    K.bottomRightCorner<3, 3>() = 0.5 * tau;
    if (world) {
        K.topRightCorner<3, 3>() -= f;
        K.bottomRightCorner<3, 3>() -= tau;
    }
    return K;
}

// The same for a force fixed in the world that acts at a point of the tip; both in the tip's axes.
static Mat6 force_geometric_stiffness(const Vec3& force, const Vec3& point) {
    Mat6 K = wrench_geometric_stiffness(stack(force, point.cross(force)), false);
    K.topRightCorner<3, 3>() -= skew(force);
    K.bottomRightCorner<3, 3>() -= skew(point) * skew(force);
    return K;
}

Matrix Reduced::geometric_stiffness() const {
    Matrix K = Matrix::Zero(mass.rows(), mass.rows());
    for (const Tip& tip : tips) {
        if (tip.wrench.isZero(0)) continue;
        const Vec6 xi = tip.map * target + tip.offset;
        const Matrix by_twist = right_jacobian(xi) * tip.map;
        K += by_twist.transpose() * wrench_geometric_stiffness(tip.own(tip.rest.R * so3_exp(xi.tail<3>())), tip.world) *
             by_twist;
    }
    return K;
}

// A = M + h D + h^2 (K + K_g). K_g is left out, and its force explicit, where it would turn a positive K indefinite:
// the model then moves far from the pose at which K_g was computed, and A must stay positive meanwhile.
void Reduced::update_system() {
    loads_changed_ = false;
    const Matrix K_g = geometric_stiffness();
    const Matrix both = stiffness + 0.5 * (K_g + K_g.transpose());
    const bool implicit = !stiffness_positive_ || positive_definite(both);
    system_ = mass + h * damping + h * h * stiffness;
    if (implicit) system_ += h * h * K_g;
    symmetric_ = !implicit || K_g.isApprox(K_g.transpose(), 1e-12) || K_g.isZero(0);
    inverse_ = whole::inverse(system_);
}

void Reduced::prepare() {
    stiffness_positive_ = positive_definite(stiffness);
    loads_changed_ = true;
    if (y.size() != mass.rows()) {
        y.setZero(mass.rows());
        v.setZero(mass.rows());
    }
    for (Vector* each : {&right_, &fresh_, &stretch_, &pull_}) each->setZero(mass.rows());
}

Pose Reduced::tip_pose(int e) const {
    const Vec6 xi = tips[e].map * y + tips[e].offset;
    return tips[e].rest * exp(xi);
}

double Reduced::deflection() const {
    double largest = 0;
    for (const Tip& tip : tips)
        largest = std::max(largest, Vec3(tip.map.topRows<3>() * y + tip.offset.head<3>()).norm());
    return largest;
}

Vec6 Reduced::tip_velocity(int e) const {
    const Vec6 xi = tips[e].map * y + tips[e].offset, rate = tips[e].map * v;
    return right_jacobian(xi) * rate;
}

// Adds h E^T Jr^T w of every applied wrench: its impulse on the coordinates.
void Reduced::add_loads() {
    for (const Tip& tip : tips) {
        if (tip.wrench.isZero(0)) continue;
        Vec6 xi;
        xi.noalias() = tip.map * y;
        xi += tip.offset;
        const Vec6 own = tip.own(tip.rest.R * so3_exp(xi.tail<3>()));
        const Vec6 pulled = h * (right_jacobian(xi).transpose() * own);
        right_.noalias() += tip.map.transpose() * pulled;
    }
}

// Handles are springs on points of the tips, implicit: at the end of the step.
void Reduced::solve_with_handles() {
    Matrix system = system_;
    for (const Tip& tip : tips) {
        if (!tip.has_handle) continue;
        const Vec6 xi = tip.map * y + tip.offset;
        const Pose pose = tip.rest * exp(xi);
        Eigen::Matrix<double, 3, 6> point;
        point.leftCols<3>() = pose.R;
        point.rightCols<3>() = -pose.R * skew(tip.point);
        const Matrix J = point * (right_jacobian(xi) * tip.map);
        const Vec3 force = tip.stiffness * (tip.target - pose.act(tip.point));
        right_ += h * (J.transpose() * force);
        system += h * (h * tip.stiffness + tip.damping) * (J.transpose() * J);
        if (!stiffness_positive_) {  // as with applied wrenches: the model may be stable only with the handle
            const Matrix by_twist = right_jacobian(xi) * tip.map;
            const Mat6 K_g = force_geometric_stiffness(pose.R.transpose() * force, tip.point);
            system += h * h * (by_twist.transpose() * K_g * by_twist);
        }
    }
    handled_ = whole::inverse(system);
    fresh_.noalias() = handled_ * right_;
}

bool Reduced::begin() {
    if (loads_changed_) update_system();
    kept_y_ = y;
    kept_v_ = v;
    kept_time_ = time;
    stretch_ = target - y;
    right_.noalias() = mass * v;
    pull_.noalias() = stiffness * stretch_;
    right_ += h * (pull_ - bias);
    add_loads();
    any_handle_ = std::any_of(tips.begin(), tips.end(), [](const Tip& tip) { return tip.has_handle; });
    if (any_handle_) solve_with_handles();
    else fresh_.noalias() = inverse_ * right_;
    return fresh_.allFinite();
}

bool Reduced::step() {
    if (begin() && finish({}, {}, nullptr)) return true;
    abandon();
    return false;
}

void Reduced::abandon() {
    y = kept_y_;
    v = kept_v_;
    time = kept_time_;
}

Vec6 Reduced::velocity(int e, const Vector& rates) const {
    const Vec6 xi = tips[e].map * y + tips[e].offset, twist = right_jacobian(xi) * (tips[e].map * rates);
    const Mat3 R = tips[e].rest.R * so3_exp(xi.tail<3>());
    return stack(R * twist.head<3>(), R * twist.tail<3>());
}

void Reduced::Bound::near(std::size_t row, const Vector& y, const Eigen::Ref<const Vector>& v, double h,
                          std::vector<Limit>& out) const {
    near_limits(row, at + map.dot(y), map.dot(v), lower, upper, h, out);
}

void Reduced::limits(std::vector<Limit>& out) const {
    for (std::size_t i = 0; i < bounds.size(); ++i) bounds[i].near(i, y, fresh_, h, out);
}

void Reduced::respond(const std::vector<Touch>& touches, const std::vector<Limit>& limits, double* free,
                      double* response) {
    const int m = static_cast<int>(y.size()), k = static_cast<int>(touches.size());
    const int n = 3 * k + static_cast<int>(limits.size());
    rows_.resize(m, n);  // G: its columns are generalised impulses per unit impulse on each row
    for (int i = 0; i < k; ++i) {
        const Tip& tip = tips[touches[i].frame];
        const Vec6 xi = tip.map * y + tip.offset;
        const Pose pose = tip.rest * exp(xi);
        const Mat6 jacobian = right_jacobian(xi);
        const Vec3 local = pose.R.transpose() * (touches[i].point - pose.p);
        const Eigen::Matrix<double, 3, 6> by_twist = touches[i].by_twist(pose.R, local) * jacobian;
        rows_.middleCols<3>(3 * i).noalias() = tip.map.transpose() * by_twist.transpose();
    }
    for (int i = 3 * k; i < n; ++i) rows_.col(i) = limits[i - 3 * k].sign * bounds[limits[i - 3 * k].row].map;
    moved_.noalias() = kept_inverse() * rows_;
    Eigen::Map<Vector>(free, n).noalias() = rows_.transpose() * fresh_;
    Eigen::Map<Matrix>(response, n, n).noalias() = rows_.transpose() * moved_;
}

bool Reduced::finish(const std::vector<Touch>& touches, const std::vector<Limit>& limits, const double* impulses) {
    const int n = static_cast<int>(3 * touches.size() + limits.size());
    if (n) fresh_.noalias() += moved_ * Eigen::Map<const Vector>(impulses, n);
    if (!fresh_.allFinite()) return false;
    v = fresh_;
    y += h * v;
    time += h;
    return y.allFinite();
}

// Kinetic energy, elastic energy about the target, and the linear term of the loads that the model was made with.
double Reduced::energy() const {
    const Vector off = y - target;
    return 0.5 * v.dot(mass * v) + 0.5 * off.dot(stiffness * off) + bias.dot(y);
}

}  // namespace supple
