#include "reduced/batch.hpp"

#include <algorithm>
#include <cmath>
#include <new>

#include "spatial/abreast_exp.hpp"

namespace supple {

Columns::Columns(int rows, int copies) : rows_(rows), stride_((copies + width - 1) / width * width) {
    // Rows at a distance of a power of two would share the same lines of a cache
    if (stride_ % 64 == 0) stride_ += width;
    const std::size_t size = static_cast<std::size_t>(std::max(rows, 1)) * stride_;
    data_.reset(static_cast<double*>(::operator new[](size * sizeof(double), std::align_val_t(64))));
    std::fill(data_.get(), data_.get() + size, 0.0);
}

void Columns::fill(int r, double value) { std::fill(row(r), row(r) + stride_, value); }

// --- all batches ----------------------------------------------------------------------------------------------------

Batch::Batch(int copies, int tips, int threads)
    : copies(copies),
      tips(tips),
      wrench(6 * tips, copies),
      in_body(tips, copies),
      base(12, copies),
      pose(16 * tips, copies),
      velocity(6 * tips, copies),
      time(1, copies),
      failed(copies, 0),
      changed_((copies + width - 1) / width, 1),
      threads_(std::max(1, std::min<int>(threads, static_cast<int>(changed_.size())))),
      team_(threads_) {
    for (int k : {0, 4, 8}) base.fill(k, 1);
    for (int e = 0; e < tips; ++e) pose.fill(16 * e + 15, 1);
}

int Batch::apply(const double* values, const std::int64_t* strides, bool world, const std::vector<int>& which) {
    const int count = static_cast<int>(which.size());
    for (int i = 0; i < count; ++i)
        for (int e = 0; e < tips; ++e)
            for (int k = 0; k < 6; ++k)
                if (!std::isfinite(values[i * strides[0] + e * strides[1] + k * strides[2]])) return i;
    for (int e = 0; e < tips; ++e)
        for (int k = 0; k < 6; ++k) {
            double* row = wrench.row(6 * e + k);
            const double* from = values + e * strides[1] + k * strides[2];
            for (int i = 0; i < count; ++i) {
                const double value = from[i * strides[0]];
                changed_[which[i] / width] |= row[which[i]] != value;
                row[which[i]] = value;
            }
        }
    for (int e = 0; e < tips; ++e) {
        double *row = in_body.row(e), now = world ? 0 : 1;
        for (int copy : which) {
            changed_[copy / width] |= row[copy] != now;
            row[copy] = now;
        }
    }
    return -1;
}

void Batch::set_base(int copy, const double* rows) {
    for (int r = 0; r < 3; ++r) {
        for (int c = 0; c < 3; ++c) base.row(3 * r + c)[copy] = rows[4 * r + c];
        base.row(9 + r)[copy] = rows[4 * r + 3];
    }
    load_changed(copy);
}

template <class Work>
void Batch::run_on_team(const Work& work) {
    team_.run([&](int thread, int threads) {
        const long long count = blocks();
        for (long long b = count * thread / threads; b < count * (thread + 1) / threads; ++b)
            work(static_cast<int>(b), thread);
    });
}

int Batch::step(int n) {
    run_on_team([&](int block, int thread) {
        step_block(block, n, thread);
        changed_[block] = 0;
        update_block(block, thread);
    });
    return static_cast<int>(std::count(failed.begin(), failed.end(), 1));
}

void Batch::update() {
    run_on_team([&](int block, int thread) { update_block(block, thread); });
}

// --- eight copies at once -------------------------------------------------------------------------------------------

namespace {

// The wrench in the axes of a tip that has turned by exp(w); `given` is in world axes, turned to those of the rest
// pose, or in the tip's own.
SUPPLE_INLINE Six own_wrench(const Three& w, const Angles& g, const Six& given, const Eight& in_body) {
    const Mask body = in_body > every(0.5);
    const Three f = polynomial(w, -g.a, g.b, given.linear), t = polynomial(w, -g.a, g.b, given.angular);
    const Three &F = given.linear, &T = given.angular;
    return {{choose(body, F.x, f.x), choose(body, F.y, f.y), choose(body, F.z, f.z)},
            {choose(body, T.x, t.x), choose(body, T.y, t.y), choose(body, T.z, t.z)}};
}

// Coordinates and rates beyond this have failed: their poses would not be finite
constexpr double largest_state = 1e60;

// R^T x for eight rotations that are given by rows
SUPPLE_INLINE Three turned_back(const Eight* rows, const Three& x) {
    return {rows[0] * x.x + rows[3] * x.y + rows[6] * x.z, rows[1] * x.x + rows[4] * x.y + rows[7] * x.z,
            rows[2] * x.x + rows[5] * x.y + rows[8] * x.z};
}
SUPPLE_INLINE Three turned_forward(const Eight* rows, const Three& x) {
    return {rows[0] * x.x + rows[1] * x.y + rows[2] * x.z, rows[3] * x.x + rows[4] * x.y + rows[5] * x.z,
            rows[6] * x.x + rows[7] * x.y + rows[8] * x.z};
}
SUPPLE_INLINE Three turned(const Mat3& R, const Three& x) {
    return {R(0, 0) * x.x + R(0, 1) * x.y + R(0, 2) * x.z, R(1, 0) * x.x + R(1, 1) * x.y + R(1, 2) * x.z,
            R(2, 0) * x.x + R(2, 1) * x.y + R(2, 2) * x.z};
}

// to += A x, with A (rows, m) shared by all lanes
SUPPLE_INLINE void add_product(const double* A, int rows, int m, const Eight* x, Eight* to) {
    for (int i = 0; i < rows; ++i, A += m) {
        Eight sum = to[i];
        for (int j = 0; j < m; ++j) sum += A[j] * x[j];
        to[i] = sum;
    }
}

// 1 in the lanes where the symmetric part of a (m, m) is positive definite, otherwise 0. `a` is overwritten.
Eight positive_definite(Eight* a, int m) {
    Eight yes = every(1);
    for (int k = 0; k < m; ++k) {
        yes = choose(a[k * m + k] > every(0), yes, every(0));
        const Eight scale = 1.0 / a[k * m + k];
        for (int i = k + 1; i < m; ++i) {
            const Eight factor = a[i * m + k] * scale;
            for (int j = k + 1; j <= i; ++j) a[i * m + j] -= factor * a[j * m + k];
        }
    }
    return yes;
}

// Inverse of a (m, m) in place, by Gauss-Jordan elimination without pivoting: for matrices with a positive definite
// symmetric part
void invert(Eight* a, int m) {
    for (int k = 0; k < m; ++k) {
        Eight* pivot = a + k * m;
        const Eight scale = 1.0 / pivot[k];
        pivot[k] = every(1);
        for (int j = 0; j < m; ++j) pivot[j] *= scale;
        for (int i = 0; i < m; ++i) {
            if (i == k) continue;
            Eight* row = a + i * m;
            const Eight factor = row[k];
            row[k] = every(0);
            for (int j = 0; j < m; ++j) row[j] -= factor * pivot[j];
        }
    }
}

std::vector<double> by_rows(const Matrix& a) {
    std::vector<double> rows;
    for (Eigen::Index i = 0; i < a.rows(); ++i)
        for (Eigen::Index j = 0; j < a.cols(); ++j) rows.push_back(a(i, j));
    return rows;
}

}  // namespace

// --- linear models --------------------------------------------------------------------------------------------------

LinearBatch::LinearBatch(Given given, int copies, int threads)
    : Batch(copies, static_cast<int>(given.rest.size()), threads),
      y(static_cast<int>(given.bias.size()), copies),
      v(static_cast<int>(given.bias.size()), copies),
      given_(std::move(given)),
      m_(static_cast<int>(given_.bias.size())),
      mass_(by_rows(given_.mass)),
      stiffness_(by_rows(given_.stiffness)),
      plain_(by_rows(given_.mass + given_.h * given_.damping + given_.h * given_.h * given_.stiffness)),
      inverse_(static_cast<std::size_t>(blocks()) * m_ * m_),
      loaded_(static_cast<std::size_t>(blocks()) * tips, 0),
      goal_(m_, copies),
      offset_(6 * tips, copies),
      scratch_(this->threads()) {
    for (const Matrix& map : given_.map) {
        const std::vector<double> rows = by_rows(map);
        map_.insert(map_.end(), rows.begin(), rows.end());
    }
    std::vector<Eight> square(m_ * m_);
    for (int i = 0; i < m_ * m_; ++i) square[i] = every(stiffness_[i]);
    stiffness_positive_ = positive_definite(square.data(), m_)[0] > 0;
    for (Scratch& s : scratch_) {
        for (std::vector<Eight>* each : {&s.y, &s.v, &s.right, &s.fresh}) each->resize(m_);
        for (std::vector<Eight>* each : {&s.by_twist, &s.pushed}) each->resize(6 * m_);
        for (std::vector<Eight>* each : {&s.system, &s.loaded}) each->resize(m_ * m_);
        s.rest_wrench.resize(tips);
    }
}

int LinearBatch::add_target(const Vector& goal, const Vector& offset) {
    changes_.emplace_back(1, copies);
    goal_effect_.push_back(goal);
    offset_effect_.push_back(offset);
    return static_cast<int>(changes_.size()) - 1;
}

void LinearBatch::set_target(int target, int copy, double change) {
    double& now = changes_[target].row(0)[copy];
    if (now == change) return;
    now = change;
    load_changed(copy);
}

void LinearBatch::evaluate_targets(int block) {
    for (int i = 0; i < m_; ++i) {
        Eight sum = every(0);
        for (std::size_t t = 0; t < changes_.size(); ++t) sum += goal_effect_[t][i] * changes_[t].at(0, block);
        goal_.put(i, block, sum);
    }
    for (int i = 0; i < 6 * tips; ++i) {
        Eight sum = every(0);
        for (std::size_t t = 0; t < changes_.size(); ++t) sum += offset_effect_[t][i] * changes_[t].at(0, block);
        offset_.put(i, block, sum);
    }
}

void LinearBatch::gather_wrenches(int block, Scratch& s) const {
    Eight turn[9];
    for (int k = 0; k < 9; ++k) turn[k] = base.at(k, block);
    for (int e = 0; e < tips; ++e) {
        Eight given[6];
        for (int k = 0; k < 6; ++k) given[k] = wrench.at(6 * e + k, block);
        const Mat3 back = given_.rest[e].R.transpose();
        const Mask body = in_body.at(e, block) > every(0.5);
        for (int k : {0, 3}) {
            const Three rest = turned(back, turned_back(turn, three(given + k)));
            const Three kept = {choose(body, given[k], rest.x), choose(body, given[k + 1], rest.y),
                                choose(body, given[k + 2], rest.z)};
            (k ? s.rest_wrench[e].angular : s.rest_wrench[e].linear) = kept;
        }
    }
}

Six LinearBatch::twist_of(int tip, const Eight* at, const Columns* offset, int block) const {
    Eight xi[6];
    for (int k = 0; k < 6; ++k) xi[k] = offset ? offset->at(6 * tip + k, block) : every(0);
    add_product(map_.data() + static_cast<std::size_t>(6 * tip) * m_, 6, m_, at, xi);
    return six(xi);
}

void LinearBatch::invert_scalar(const Scratch& s, Eight* into) const {
    Matrix each(m_, m_);
    for (int l = 0; l < width; ++l) {
        for (int i = 0; i < m_ * m_; ++i) each(i / m_, i % m_) = s.system[i][l];
        each = whole::inverse(each).eval();
        for (int i = 0; i < m_ * m_; ++i) into[i][l] = each(i / m_, i % m_);
    }
}

// A^-1 of the block's copies, as in Reduced::update_system.
void LinearBatch::prepare_block(int block, Scratch& s) {
    evaluate_targets(block);
    gather_wrenches(block, s);
    std::fill(s.loaded.begin(), s.loaded.end(), every(0));  // K_g
    for (int i = 0; i < m_; ++i) s.y[i] = goal_.at(i, block);
    for (int e = 0; e < tips; ++e) {
        double most = 0;
        for (int k = 0; k < 6; ++k)
            for (int l = 0; l < width; ++l) most = std::max(most, std::abs(wrench.row(6 * e + k)[width * block + l]));
        loaded_[static_cast<std::size_t>(block) * tips + e] = most > 0;
        if (most == 0) continue;
        const Six xi = twist_of(e, s.y.data(), &offset_, block);
        const Angles g = angles(xi.angular);
        const Eight fixed = 1.0 - in_body.at(e, block);  // 1 where the wrench is fixed in the world
        const Six own = own_wrench(xi.angular, g, s.rest_wrench[e], in_body.at(e, block));
        const double* map = map_.data() + static_cast<std::size_t>(6 * e) * m_;
        for (int j = 0; j < m_; ++j) {
            Eight column[6];
            for (int k = 0; k < 6; ++k) column[k] = every(map[k * m_ + j]);
            const Six by = pushed_forward(xi, g, six(column));
            set(&s.by_twist[6 * j], by);
            // K x with K = [[0, f/2 - f], [f/2, tau/2 - tau]] of the skew matrices; the second terms where fixed in the
            // world
            const Three fw = cross(own.linear, by.angular), fv = cross(own.linear, by.linear),
                        tw = cross(own.angular, by.angular);
            const Eight half = 0.5 - fixed;
            set(&s.pushed[6 * j], {half * fw, 0.5 * fv + half * tw});
        }
        for (int i = 0; i < m_; ++i)
            for (int j = 0; j < m_; ++j) s.loaded[i * m_ + j] += dot(six(&s.by_twist[6 * i]), six(&s.pushed[6 * j]));
    }
    Eight implicit = every(1);
    if (stiffness_positive_) {
        for (int i = 0; i < m_; ++i)
            for (int j = 0; j < m_; ++j)
                s.system[i * m_ + j] = stiffness_[i * m_ + j] + 0.5 * (s.loaded[i * m_ + j] + s.loaded[j * m_ + i]);
        implicit = positive_definite(s.system.data(), m_);
    }
    const double h2 = given_.h * given_.h;
    for (int i = 0; i < m_ * m_; ++i)
        s.system[i] = plain_[i] + h2 * choose(implicit > every(0.5), s.loaded[i], every(0));
    Eight* into = &inverse_[static_cast<std::size_t>(block) * m_ * m_];
    if (!stiffness_positive_) return invert_scalar(s, into);
    invert(s.system.data(), m_);
    std::copy(s.system.begin(), s.system.end(), into);
}

void LinearBatch::step_block(int block, int n, int thread) {
    Scratch& s = scratch_[thread];
    if (changed_[block]) prepare_block(block, s);
    bool any = false;
    for (int e = 0; e < tips; ++e) any = any || loaded_[static_cast<std::size_t>(block) * tips + e];
    if (any) gather_wrenches(block, s);
    const double h = given_.h;
    const Eight* inverse = &inverse_[static_cast<std::size_t>(block) * m_ * m_];
    for (int i = 0; i < m_; ++i) {
        s.y[i] = y.at(i, block);
        s.v[i] = v.at(i, block);
    }
    Eight now = time.at(0, block), good = every(1);  // 1 in the lanes whose steps are finite so far
    for (int k = 0; k < n; ++k) {
        // h (K (target - y) - b) + M v
        for (int i = 0; i < m_; ++i) s.fresh[i] = goal_.at(i, block) - s.y[i];
        for (int i = 0; i < m_; ++i) s.right[i] = every(-given_.bias[i]);
        add_product(stiffness_.data(), m_, m_, s.fresh.data(), s.right.data());
        for (int i = 0; i < m_; ++i) s.right[i] *= h;
        add_product(mass_.data(), m_, m_, s.v.data(), s.right.data());
        for (int e = 0; e < tips; ++e) {
            if (!loaded_[static_cast<std::size_t>(block) * tips + e]) continue;
            const Six xi = twist_of(e, s.y.data(), &offset_, block);
            const Angles g = angles(xi.angular);
            Eight pull[6];
            set(pull, pulled_back(xi, g, own_wrench(xi.angular, g, s.rest_wrench[e], in_body.at(e, block))));
            for (int r = 0; r < 6; ++r) pull[r] *= h;
            const double* map = map_.data() + static_cast<std::size_t>(6 * e) * m_;
            for (int j = 0; j < m_; ++j) {
                Eight sum = s.right[j];
                for (int r = 0; r < 6; ++r) sum += map[r * m_ + j] * pull[r];
                s.right[j] = sum;
            }
        }
        for (int i = 0; i < m_; ++i) {
            Eight sum = inverse[i * m_] * s.right[0];
            for (int j = 1; j < m_; ++j) sum += inverse[i * m_ + j] * s.right[j];
            s.fresh[i] = sum;
            const Eight next = s.y[i] + h * sum, size = next * next + sum * sum;
            good = choose(size <= every(largest_state * largest_state), good, every(0));  // false if it is not a number
        }
        const Mask keep = good > every(0.5);
        for (int i = 0; i < m_; ++i) {
            s.v[i] = choose(keep, s.fresh[i], s.v[i]);
            s.y[i] = choose(keep, s.y[i] + h * s.fresh[i], s.y[i]);
        }
        now = choose(keep, now + h, now);
    }
    for (int i = 0; i < m_; ++i) {
        y.put(i, block, s.y[i]);
        v.put(i, block, s.v[i]);
    }
    time.put(0, block, now);
    for (int l = 0; l < width && width * block + l < copies; ++l) failed[width * block + l] = good[l] < 0.5;
}

void LinearBatch::update_block(int block, int thread) {
    Scratch& s = scratch_[thread];
    if (changed_[block]) evaluate_targets(block);
    for (int i = 0; i < m_; ++i) {
        s.y[i] = y.at(i, block);
        s.v[i] = v.at(i, block);
    }
    Eight turn[9];
    for (int k = 0; k < 9; ++k) turn[k] = base.at(k, block);
    const Three origin = {base.at(9, block), base.at(10, block), base.at(11, block)};
    for (int e = 0; e < tips; ++e) {
        const Six xi = twist_of(e, s.y.data(), &offset_, block);
        const Angles g = angles(xi.angular);
        const Three& w = xi.angular;
        const Three p = polynomial(w, g.b, g.c, xi.linear);
        const Pose& rest = given_.rest[e];
        // columns of the world pose: base * rest * exp(xi)
        for (int c = 0; c < 4; ++c) {
            const Three column = c == 3 ? p : polynomial(w, g.a, g.b, every(Vec3(Mat3::Identity().col(c))));
            Three in_world = turned(rest.R, column);
            if (c == 3) in_world = in_world + every(rest.p);
            in_world = turned_forward(turn, in_world);
            if (c == 3) in_world = in_world + origin;
            const Eight entries[3] = {in_world.x, in_world.y, in_world.z};
            for (int r = 0; r < 3; ++r) pose.put(16 * e + 4 * r + c, block, entries[r]);
        }
        Eight twist[6];
        set(twist, pushed_forward(xi, g, twist_of(e, s.v.data(), nullptr, block)));
        for (int k = 0; k < 6; ++k) velocity.put(6 * e + k, block, twist[k]);
    }
}

// --- models that are stepped one by one -----------------------------------------------------------------------------

ThreadedBatch::ThreadedBatch(std::vector<BatchMember*> members, int tips, int threads)
    : Batch(static_cast<int>(members.size()), tips, threads), members_(std::move(members)) {}

void ThreadedBatch::step_block(int block, int n, int) {
    for (int i = width * block; i < std::min(width * (block + 1), copies); ++i) {
        BatchMember& member = *members_[i];
        if (changed_[block]) {
            bool differs = false;
            for (int e = 0; e < tips; ++e) {
                Vec6 given;
                for (int k = 0; k < 6; ++k) given[k] = wrench.row(6 * e + k)[i];
                const bool world = in_body.row(e)[i] == 0;
                if (world) {  // to the axes of the mechanism's own world frame
                    Mat3 turn;
                    for (int k = 0; k < 9; ++k) turn(k / 3, k % 3) = base.row(k)[i];
                    given = stack(turn.transpose() * given.head<3>(), turn.transpose() * given.tail<3>());
                }
                ExternalLoad& load = member.tip(e);
                differs = differs || load.world != world || load.wrench != given;
                load.wrench = given;
                load.world = world;
            }
            if (differs) member.loads_changed();
        }
        failed[i] = 0;
        for (int k = 0; k < n && !failed[i]; ++k) failed[i] = !member.step();
    }
}

void ThreadedBatch::update_block(int block, int) {
    for (int i = width * block; i < std::min(width * (block + 1), copies); ++i) {
        Pose at;
        for (int k = 0; k < 9; ++k) at.R(k / 3, k % 3) = base.row(k)[i];
        for (int k = 0; k < 3; ++k) at.p[k] = base.row(9 + k)[i];
        for (int e = 0; e < tips; ++e) {
            const Pose tip = at * members_[i]->tip_pose(e);
            for (int r = 0; r < 3; ++r) {
                for (int c = 0; c < 3; ++c) pose.row(16 * e + 4 * r + c)[i] = tip.R(r, c);
                pose.row(16 * e + 4 * r + 3)[i] = tip.p[r];
            }
            const Vec6 twist = members_[i]->tip_velocity(e);
            for (int k = 0; k < 6; ++k) velocity.row(6 * e + k)[i] = twist[k];
        }
        time.row(0)[i] = members_[i]->time();
    }
}

}  // namespace supple
