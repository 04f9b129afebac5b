#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cmath>
#include <cstring>

#include "contact/friction.hpp"
#include "spatial/eight.hpp"

namespace supple {

namespace {
// Steps of Newton's method from the impulses of the previous step, and later
constexpr int first_newton = 4, later_newton = 12;
constexpr int convex_steps = 12, sweeps = 3;  // per round
}  // namespace

// Duff et al., Building an orthonormal basis, revisited (2017): no square root, no branch.
Mat3 contact_frame(const Vec3& normal) {
    const double sign = std::copysign(1.0, normal[2]), a = -1 / (sign + normal[2]), b = normal[0] * normal[1] * a;
    Mat3 frame;
    frame.col(0) = normal;
    frame.col(1) << 1 + sign * normal[0] * normal[0] * a, sign * b, -sign * normal[0];
    frame.col(2) << b, sign + normal[1] * normal[1] * a, -normal[1];
    return frame;
}

void near_limits(std::size_t row, double q, double rate, double lower, double upper, double h,
                 std::vector<Limit>& out) {
    const double reach = 0.05 + 2 * h * std::abs(rate);
    if (q - lower < reach) out.push_back({static_cast<int>(row), q - lower, 1.0});
    if (upper - q < reach) out.push_back({static_cast<int>(row), upper - q, -1.0});
}

void couple(const Wrenches& G, int n, const Mat6& response, double* W) {
    for (int first = padded(n) - width; first >= 0; first -= width) {  // eight columns at a time
        Eight g[6], m[6];
        for (int r = 0; r < 6; ++r) std::memcpy(&g[r], &G(r, first), sizeof(Eight));
        for (int r = 0; r < 6; ++r) {
            m[r] = response(r, 0) * g[0];
            for (int c = 1; c < 6; ++c) m[r] += response(r, c) * g[c];
        }
        for (int i = 0; i < n; ++i) {  // W is symmetric: a piece of row i is also a piece of column i
            Eight sum = G(0, i) * m[0];
            for (int r = 1; r < 6; ++r) sum += G(r, i) * m[r];
            const int at = i * n + first;
            // a last piece may write beyond its row; the pieces written later overwrite that
            if (at + width <= n * n) std::memcpy(W + at, &sum, sizeof(Eight));
            else std::memcpy(W + at, &sum, sizeof(double) * (n - first));
        }
    }
}

Vec3 solve_contact(const Mat3& W, const Mat3& inverse, const Vec3& b, double friction) {
    if (b[0] >= 0) return Vec3::Zero();
    const double w = W(0, 0);
    if (friction == 0) return {-b[0] / w, 0, 0};
    const Vec3 sticking = -(inverse * b);
    if (sticking[0] >= 0 && sticking.tail<2>().norm() <= friction * sticking[0]) return sticking;
    // sliding: eliminating p_n with v_n = 0 leaves v_t = S p_t + c. Find a > 0 with v_t = -a p_t and |p_t| = mu p_n.
    const Eigen::Vector2d c(b[1] - W(1, 0) * b[0] / w, b[2] - W(2, 0) * b[0] / w);
    const double s00 = W(1, 1) - W(1, 0) * W(0, 1) / w, s01 = W(1, 2) - W(1, 0) * W(0, 2) / w,
                 s10 = W(2, 1) - W(2, 0) * W(0, 1) / w, s11 = W(2, 2) - W(2, 0) * W(0, 2) / w;
    auto impulse = [&](double a) -> Vec3 {
        const double d00 = s00 + a, d11 = s11 + a, det = d00 * d11 - s01 * s10;
        const double p1 = -(d11 * c[0] - s01 * c[1]) / det, p2 = -(d00 * c[1] - s10 * c[0]) / det;
        return {-(b[0] + W(0, 1) * p1 + W(0, 2) * p2) / w, p1, p2};
    };
    auto outside = [&](const Vec3& p) { return p.tail<2>().norm() - friction * p[0]; };
    double low = 0, high = std::max({s00, s11, w}) + 1e-300;
    while (outside(impulse(high)) > 0 && high < 1e300) {
        low = high;
        high *= 4;
    }
    // regula falsi (Illinois variant) in the bracket [low, high]
    double f_low = outside(impulse(low)), f_high = outside(impulse(high));
    if (!std::isfinite(f_low)) f_low = std::abs(f_high);
    for (int i = 0, side = 0; i < 100 && high - low > 1e-15 * high; ++i) {
        double a = (low * f_high - high * f_low) / (f_high - f_low);
        if (!(a > low && a < high)) a = 0.5 * (low + high);
        const Vec3 p = impulse(a);
        const double f = outside(p);
        if (std::abs(f) <= 1e-15 * friction * std::abs(p[0])) {
            high = a;
            break;
        }
        if (f > 0) {
            low = a;
            f_low = f;
            if (side == 1) f_high /= 2;
            side = 1;
        } else {
            high = a;
            f_high = f;
            if (side == -1) f_low /= 2;
            side = -1;
        }
    }
    Vec3 p = impulse(high);
    if (!(p[0] > 0)) return Vec3::Zero();
    const double t = p.tail<2>().norm();
    if (t > friction * p[0]) p.tail<2>() *= friction * p[0] / t;
    return p;
}

void MomentBlock::prepare() {
    const Eigen::Index t = W.rows() - 1;
    const double w = W(0, 0);
    const Up<5> S = W.bottomRightCorner(t, t) - W.bottomLeftCorner(t, 1) * W.topRightCorner(1, t) / w;
    const Eigen::SelfAdjointEigenSolver<Up<5>> eigen(S);
    axes = eigen.eigenvectors();
    values = eigen.eigenvalues().cwiseMax(1e-13 * eigen.eigenvalues()[t - 1] + 1e-300);
    coupling = axes.transpose() * W.bottomLeftCorner(t, 1);
}

// Sliding: with v_n = 0, v_t = S p_t + c = -a p_t and |p_t| = mu p_n. In the eigenvectors of S each component is x_i =
// -c_i / (s_i + a), and mu p_n / |x| - 1 is almost linear in a: its zero is found by Newton's method within a bracket.
MomentBlock::Few<6> MomentBlock::solve(const Few<6>& b, double friction) const {
    const Eigen::Index t = b.size() - 1;
    Few<6> p = Few<6>::Zero(t + 1);
    if (b[0] >= 0) return p;
    const double w = W(0, 0);
    p[0] = -b[0] / w;
    if (friction == 0) return p;
    Few<5> c(t), x(t);  // written entry by entry: GCC takes vectors of unknown size for longer ones
    for (Eigen::Index i = 0; i < t; ++i) {
        c[i] = -coupling[i] * (b[0] / w);
        for (Eigen::Index k = 0; k < t; ++k) c[i] += axes(k, i) * b[1 + k];
    }
    double normal = 0, length = 0, slope = 0;
    auto excess = [&](double a) {  // of the normal impulse, relative to what friction needs
        // |x|^2, coupling.x, coupling.dx/da, x.dx/da
        double squares = 0, coupled = 0, coupled_change = 0, stretched = 0;
        for (Eigen::Index i = 0; i < t; ++i) {
            x[i] = -c[i] / (values[i] + a);
            const double change = -x[i] / (values[i] + a);
            squares += x[i] * x[i];
            coupled += coupling[i] * x[i];
            coupled_change += coupling[i] * change;
            stretched += x[i] * change;
        }
        length = std::sqrt(squares);
        normal = -(b[0] + coupled) / w;
        slope = friction * (-coupled_change / w / length - normal * stretched / (length * length * length));
        return friction * normal / length - 1;
    };
    double low = 0, a = 0, found = excess(0);
    if (length > friction * normal) {  // it slides
        double high = values[t - 1];
        while (excess(high) < 0 && high < 1e300) {
            low = high;
            high *= 8;
        }
        a = low;
        found = excess(a);
        for (int k = 0; k < 100 && std::abs(found) > 1e-14 && high - low > 1e-15 * high; ++k) {
            a -= found / slope;
            if (!(a > low && a < high)) a = low > 0 && k % 2 ? std::sqrt(low * high) : 0.5 * (low + high);
            found = excess(a);
            (found < 0 ? low : high) = a;
        }
    }
    if (!(normal > 0)) return Few<6>::Zero(t + 1);
    p[0] = normal;
    const double scale = length > friction * normal ? friction * normal / length : 1.0;
    for (Eigen::Index i = 0; i < t; ++i)
        for (Eigen::Index k = 0; k < t; ++k) p[1 + i] += scale * axes(i, k) * x[k];
    return p;
}

void FrictionSolver::resize(int contacts, int moments, int limits) {
    contacts_ = contacts;
    moments_ = moments;
    limits_ = limits;
    first_limit_ = 3 * (contacts + moments);
    n_ = first_limit_ + limits;
    W_.assign(static_cast<std::size_t>(n_) * n_, 0.0);
    for (auto* each : {&b, &p, &v_, &limit_rho_}) each->assign(n_, 0.0);
    friction.assign(contacts, 0.0);
    moment.assign(contacts, -1);
    moves_.assign(3 * moments, 1);
    max_response.assign(contacts, 0.0);
    blocks_.resize(contacts);
    moment_blocks_.resize(moments);
    steps_ = 0;
    most_steps_ = std::clamp(static_cast<int>(1300 / (2 + 4e-4 * n_ * n_)), 60, 500);
}

// The full engine's tangent has gyroscopic terms that are not symmetric; the solver takes the symmetric part.
void FrictionSolver::symmetrise() {
    for (int i = 0; i < n_; ++i)
        for (int j = 0; j < i; ++j) W(i, j) = W(j, i) = 0.5 * (W(i, j) + W(j, i));
}

void FrictionSolver::prepare_blocks() {
    for (int i = 0; i < contacts_; ++i) {
        Mat3 D;
        for (int r = 0; r < 3; ++r)
            for (int c = 0; c < 3; ++c) D(r, c) = W(3 * i + r, 3 * i + c);
        Block& block = blocks_[i];
        const double size = D.diagonal().maxCoeff();
        block.normal = blocked(i) ? 0 : D(0, 0);
        block.rho = 1 / std::max(size, 1e-14 * max_response[i] + 1e-300);
        // regularised: a tangent along which neither side can move gets no impulse
        D.diagonal().array() += 1e-13 * size + 1e-300;
        block.inverse = D.inverse();
    }
    for (int i = 0; i < contacts_ && moments_; ++i) {
        if (moment[i] < 0) continue;
        const int first = moment_row(moment[i]);
        double most = 0;
        for (int r = 0; r < 3; ++r) most = std::max(most, W(first + r, first + r));
        // A row is zero without friction about its axis, or if neither side can turn about it
        for (int r = 0; r < 3; ++r)
            moves_[3 * moment[i] + r] = W(first + r, first + r) > 1e-10 * most + 1e-14 * max_response[i];
        MomentBlock& block = moment_blocks_[moment[i]];
        block.count = rows_of(i, block.rows);
        block.W.resize(block.count, block.count);
        for (int r = 0; r < block.count; ++r)
            for (int c = 0; c < block.count; ++c) block.W(r, c) = W(block.rows[r], block.rows[c]);
        if (blocks_[i].normal > 0 && block.count > 1) block.prepare();
    }
    double most = 0;
    for (int i = 0; i < n_; ++i) most = std::max(most, W(i, i));
    // a coordinate that cannot move, up to rounding, has no limit
    for (int i = first_limit_; i < n_; ++i) limit_rho_[i] = W(i, i) > 1e-18 * most ? 1 / W(i, i) : 0;
    scale_ = 1;
    for (double value : b) scale_ = std::max(scale_, std::abs(value));
}

void FrictionSolver::update_velocities() {
    Eigen::Map<Vector>(v_.data(), n_).noalias() = Eigen::Map<const Eigen::MatrixXd>(W_.data(), n_, n_) *
                                                  Eigen::Map<const Vector>(p.data(), n_);
    for (int i = 0; i < n_; ++i) v_[i] += b[i];
}

int FrictionSolver::rows_of(int contact, int* rows) const {
    rows[0] = 3 * contact;
    if (friction[contact] == 0) return 1;
    int count = 3;
    for (int r = 1; r < 3; ++r) rows[r] = 3 * contact + r;
    if (moments_ && moment[contact] >= 0)
        for (int r = 0; r < 3; ++r)
            if (moves_[3 * moment[contact] + r]) rows[count++] = moment_row(moment[contact]) + r;
    return count;
}

// One Gauss-Seidel pass: every contact is solved exactly with the impulses of the others fixed. Updates v.
void FrictionSolver::sweep() {
    Eigen::Map<Vector> v(v_.data(), n_);
    const Eigen::Map<const Eigen::MatrixXd> all(W_.data(), n_, n_);
    for (int i = 0; i < contacts_; ++i) {
        const Block& block = blocks_[i];
        if (block.normal == 0) continue;
        if (moments_ && moment[i] >= 0) {
            const MomentBlock& moments = moment_blocks_[moment[i]];
            MomentBlock::Few<6> own(moments.count), without(moments.count);
            for (int r = 0; r < moments.count; ++r) {
                own[r] = p[moments.rows[r]];
                without[r] = v[moments.rows[r]];
            }
            without -= moments.W * own;
            const MomentBlock::Few<6> fresh = moments.solve(without, friction[i]);
            for (int r = 0; r < moments.count; ++r) {
                v.noalias() += (fresh[r] - own[r]) * all.col(moments.rows[r]);
                p[moments.rows[r]] = fresh[r];
            }
            continue;
        }
        const Mat3 D = all.block<3, 3>(3 * i, 3 * i);
        Eigen::Map<Vec3> own(p.data() + 3 * i);
        const Vec3 without = v.segment<3>(3 * i) - D * own;
        const Vec3 fresh = solve_contact(D, block.inverse, without, friction[i]), change = fresh - own;
        if (change.isZero(0)) continue;
        v.noalias() += all.middleCols<3>(3 * i) * change;
        own = fresh;
    }
    for (int i = first_limit_; i < n_; ++i) {
        if (limit_rho_[i] == 0) continue;
        const double fresh = std::max(0.0, p[i] - v_[i] * limit_rho_[i]), change = fresh - p[i];
        if (change == 0) continue;
        v.noalias() += change * all.col(i);
        p[i] = fresh;
    }
}

double FrictionSolver::compute_residual() {
    update_velocities();
    double worst = 0;
    worst_ = -1;
    auto note = [&](double off, int i) {
        if (off <= worst) return;
        worst = off;
        worst_ = i;
    };
    for (int i = 0; i < contacts_; ++i) {
        const double rho = blocks_[i].rho, mu = friction[i];
        if (blocks_[i].normal == 0) continue;
        int rows[6];
        const int count = rows_of(i, rows);
        double length = 0;
        for (int r = 1; r < count; ++r) {
            const double t = p[rows[r]] - rho * v_[rows[r]];
            length += t * t;
        }
        length = std::sqrt(length);
        // project onto the disc of the present normal impulse: Coulomb's law, not the associated (convex) law
        const double disc = mu * std::max(0.0, p[3 * i]), shrink = length > disc ? disc / length : 1.0;
        const double a = p[3 * i] - std::max(0.0, p[3 * i] - rho * v_[3 * i]);
        double off = a * a;
        for (int r = 1; r < count; ++r) {
            const double b = p[rows[r]] - shrink * (p[rows[r]] - rho * v_[rows[r]]);
            off += b * b;
        }
        note(std::sqrt(off) / rho, i);
    }
    for (int i = first_limit_; i < n_; ++i)
        if (limit_rho_[i] > 0)
            note(std::abs(p[i] - std::max(0.0, p[i] - limit_rho_[i] * v_[i])) / limit_rho_[i],
                 contacts_ + i - first_limit_);
    return worst / scale_;
}

// One step of semismooth Newton on p = P(p - rho v) (Alart and Curnier), without a line search: when contacts change
// between sliding and sticking, the residual may rise before it falls. Open contacts are left out of the linear system.
// Returns false if that system is singular.
bool FrictionSolver::newton_step(double rho_factor) {
    closed_rows_.clear();
    bool dropped = false, sliding = false;
    auto drop = [&](int i) {
        dropped = dropped || p[i] != 0;
        p[i] = 0;
    };
    for (int i = 0; i < contacts_; ++i) {
        const double rho = rho_factor * blocks_[i].rho;
        const bool open = blocks_[i].normal == 0 || p[3 * i] - rho * v_[3 * i] <= 0;
        int rows[6];
        const int count = rows_of(i, rows);
        for (int r = 0; r < count; ++r) {
            if (open) drop(rows[r]);
            else closed_rows_.push_back(rows[r]);
        }
    }
    for (int i = first_limit_; i < n_; ++i) {
        if (limit_rho_[i] > 0 && p[i] - limit_rho_[i] * v_[i] > 0) closed_rows_.push_back(i);
        else drop(i);
    }
    const int m = static_cast<int>(closed_rows_.size());
    if (dropped) update_velocities();
    // stored transposed: columns are equations, so that rows of the symmetric W are contiguous; columns end with zeros
    jacobian_.resize(padded(m), m);
    right_.resize(m);
    auto add = [&](int equation, int own, double factor) {  // adds factor times row closed_rows_[own] of W
        const int k = closed_rows_[own];
        const double* row = &W_[static_cast<std::size_t>(k) * n_];
        double* out = jacobian_.col(equation).data();
        if (m == n_ && !moments_)
            for (int j = 0; j < m; ++j) out[j] += factor * row[j];
        else
            for (int j = 0; j < m; ++j) out[j] += factor * row[closed_rows_[j]];
        out[own] += factor * 1e-8 * row[k];  // regularised: redundant contacts get equal impulses
    };
    for (int e = 0; e < m;) {
        const int n = closed_rows_[e];
        jacobian_.col(e).setZero();
        if (n >= first_limit_) {
            add(e, e, 1);
            right_[e] = -v_[n];
            ++e;
            continue;
        }
        const int i = n / 3;
        int rows[6];
        const int count = rows_of(i, rows);
        const double rho = rho_factor * blocks_[i].rho, mu = friction[i];
        add(e, e, 1);
        right_[e] = -v_[n];
        double along[6], length = 0;
        for (int r = 1; r < count; ++r) {
            jacobian_.col(e + r).setZero();
            along[r] = p[rows[r]] - rho * v_[rows[r]];
            length += along[r] * along[r];
        }
        length = std::sqrt(length);
        const double disc = mu * std::max(0.0, p[n]), ratio = disc / length;
        sliding = sliding || length > disc;
        for (int r = 1; r < count; ++r) {
            if (length <= disc) {
                add(e + r, e + r, 1);
                right_[e + r] = -v_[rows[r]];
                continue;
            }
            // the derivative of p_t - mu p_n e is dp_t - mu e dp_n - ratio (I - e e^T) (dp_t - rho dv_t); divided by
            // rho
            for (int c = 1; c < count; ++c) {
                const double same = r == c, q = ratio * (same - along[r] * along[c] / (length * length));
                add(e + r, e + c, q);
                jacobian_(e + c, e + r) += (same - q) / rho;
            }
            jacobian_(e, e + r) += -mu * along[r] / (length * rho);
            right_[e + r] = -(p[rows[r]] - disc * along[r] / length) / rho;
        }
        e += count;
    }
    if (!solve_newton_system(m, sliding)) return false;
    for (int e = 0; e < m; ++e) p[closed_rows_[e]] += right_[e];
    for (int i = 0; i < contacts_; ++i) p[3 * i] = std::max(p[3 * i], 0.0);
    residual_ = compute_residual();
    return true;
}

// Solves jacobian_^T x = right_ in place; false if singular. Without sliding contacts the matrix is symmetric and
// positive definite, and its lower triangle is eliminated without pivoting; otherwise the whole matrix with column
// pivoting. Four pivots at a time are applied to the other columns: that takes a third of the time of one after the
// other. Eight rows are changed at a time, also some above those that count, which are not read again.
bool FrictionSolver::solve_newton_system(int m, bool sliding) {
    constexpr int panel = 4;
    const Eigen::Index stride = jacobian_.rows();
    double* right = right_.data();
    // of the pivots of a panel: factors of the other columns, and rows of the matrix
    panel_.resize(static_cast<std::size_t>(2 * panel) * m);
    const auto factors = [&](int l) { return panel_.data() + static_cast<std::size_t>(l) * m; };
    const auto rows = [&](int l) { return factors(panel + l); };
    for (int first = 0; first < m; first += panel) {
        const int end = std::min(first + panel, m);
        if (sliding)
            for (int j = first; j < m; ++j)
                for (int k = first; k < end; ++k) rows(k - first)[j] = jacobian_(k, j);
        for (int k = first; k < end; ++k) {
            double* row = rows(k - first);
            if (sliding) {
                for (int l = first; l < k; ++l) {
                    const double entry = jacobian_(k, l), *factor = factors(l - first);
                    for (int j = k; j < m; ++j) row[j] -= factor[j] * entry;
                }
                int pivot = k;  // chosen among columns, which are the equations
                double largest = std::abs(row[k]);
                for (int j = k + 1; j < m; ++j) {
                    const double size = std::abs(row[j]);
                    pivot = size > largest ? j : pivot;
                    largest = std::max(largest, size);
                }
                if (pivot != k) {
                    jacobian_.col(k).swap(jacobian_.col(pivot));
                    std::swap(right[k], right[pivot]);
                    for (int l = first; l < end; ++l)
                        std::swap(factors(l - first)[k], factors(l - first)[pivot]),
                            std::swap(rows(l - first)[k], rows(l - first)[pivot]);
                }
            }
            double* own = jacobian_.col(k).data();
            for (int l = first; l < k; ++l) {
                const double factor = factors(l - first)[k], *from = jacobian_.col(l).data();
                for (int i = k; i < m; ++i) own[i] -= factor * from[i];
            }
            if (!(std::abs(own[k]) > 0)) return false;
            const double inverse = 1 / own[k], *of = sliding ? row : own;
            double* factor = factors(k - first);
            for (int j = k + 1; j < m; ++j) {
                factor[j] = of[j] * inverse;
                right[j] -= factor[j] * right[k];
            }
        }
        if (end == m) break;
        const double *f0 = factors(0), *f1 = factors(1), *f2 = factors(2), *f3 = factors(3);
        const double *a = jacobian_.col(first).data(), *b = a + stride, *c = b + stride, *d = c + stride;
        for (int j = end; j < m; ++j) {
            double* to = jacobian_.col(j).data();
            const double g0 = f0[j], g1 = f1[j], g2 = f2[j], g3 = f3[j];
            for (Eigen::Index i = (sliding ? end : j) / width * width; i < stride; i += width)
                store(to + i,
                      load(to + i) - (g0 * load(a + i) + g1 * load(b + i) + g2 * load(c + i) + g3 * load(d + i)));
        }
    }
    for (int k = m - 1; k >= 0; --k) {
        const int rest = m - k - 1;
        right[k] = (right[k] - jacobian_.col(k).segment(k + 1, rest).dot(right_.tail(rest))) / jacobian_(k, k);
        if (!std::isfinite(right[k])) return false;
    }
    return true;
}

void FrictionSolver::keep_best() {
    if (residual_ >= least_) return;
    least_ = residual_;
    best_ = p;
}

void FrictionSolver::newton(double rho_factor, int most) {
    const double before = std::max(residual_, 1e-6);
    for (int k = 0; k < most && residual_ > tolerance && residual_ <= 1e4 * before && steps_ < most_steps_; ++k) {
        ++steps_;
        if (!newton_step(rho_factor)) return;
        keep_best();
    }
}

void FrictionSolver::solve(bool symmetric) {
    residual_ = 0;
    if (!n_) return;
    if (!symmetric) symmetrise();
    prepare_blocks();
    for (int i = 0; i < contacts_; ++i) {
        if (friction[i] != 0) continue;
        std::fill_n(p.begin() + 3 * i + 1, 2, 0.0);
        if (moments_ && moment[i] >= 0) std::fill_n(p.begin() + moment_row(moment[i]), 3, 0.0);
    }
    least_ = residual_ = compute_residual();
    best_ = p;
    // Newton from the previous step's impulses converges at once unless contacts change between sliding and sticking
    for (int round = 0; least_ > tolerance && steps_ < most_steps_; ++round) {
        start_ = p;
        newton(round % 2 ? 3.0 : 1.0, round ? later_newton : first_newton);
        if (least_ <= (round ? sufficient : tolerance)) break;
        p = start_;
        convex_round(convex_steps);
        if (residual_ <= sufficient) continue;
        update_velocities();
        // large problems need more sweeps, and these take little of their time
        const int counted = std::min(sweeps + 2 * round, most_steps_ - steps_), more = n_ * n_ / 2000;
        for (int k = 0; k < counted + more; ++k) sweep();
        steps_ += counted;
        residual_ = compute_residual();
        keep_best();
    }
    if (residual_ > least_) {
        p = best_;
        residual_ = compute_residual();
    }
}

}  // namespace supple
