// The columns of B and the projections of the equation of motion onto them: for each tip six right-hand sides at a time.
#include <algorithm>

#include "condensed/condensed_passes.hpp"
#include "engine/articulated_exact.hpp"

namespace supple {

namespace {
SUPPLE_INLINE const double* numbers(const Eight& of) { return reinterpret_cast<const double*>(&of); }

SUPPLE_INLINE Eight times(const double* by, const Eight* of) {
    return (by[0] * of[0] + by[1] * of[1]) + (by[2] * of[2] + by[3] * of[3]) + (by[4] * of[4] + by[5] * of[5]);
}

// sum of left right^T
Mat6 sum_of_products(const Eight* left, const Eight* right, int count) {
    Eight rows[6] = {};
    for (int i = 0; i < count; ++i) {
        const double* by = numbers(left[i]);
        const Eight with = right[i];
        for (int r = 0; r < 6; ++r) rows[r] += by[r] * with;
    }
    Mat6 sum;
    for (int r = 0; r < 6; ++r) sum.row(r) = first_six(rows[r]);
    return sum;
}
}  // namespace

// B: the responses to unit wrenches on the tips, in their own axes. For trees only the pass inward, `carry` makes the other.
void PassesInterior::compute_columns() {
    const int n = static_cast<int>(nodes_.size());
    for (int e = 0; e < count(); ++e) {
        const Mat6& wrenches = to_tip_[e] = adjoint(about_origin(e).inverse());  // rows
        if (tie_rows_ > 0) {
            on_any_path_.assign(n, 1);
            ContactRow rows[6];
            for (int c = 0; c < 6; ++c) {
                rows[c].node = tip_node(e);
                rows[c].wrench = wrenches.row(c);
            }
            solve_eight(rows, 6);
            for (int i = 0; i < n; ++i)
                if (nodes_[i].size == 1) columns_[e * stride_ + i] = responses_->turn[i];
            std::copy_n(responses_->tie.data(), tie_rows_, &tie_columns_[e * tie_rows_]);
            continue;
        }
        Eight right[6];
        for (int r = 0; r < 6; ++r) right[r] = six_lanes(-wrenches.col(r));
        for (int i = tip_node(e); i >= 0; i = nodes_[i].parent) {
            const Eliminated& out = eliminated_[i];
            if (nodes_[i].size == 0) continue;
            const Eight rho = times(numbers(out.screw), right);
            path_columns_[e * stride_ + i] = out.inverse * rho;
            if (out.inverse == 0) continue;
            const double* u = numbers(out.upart);
            for (int r = 0; r < 6; ++r) right[r] -= u[r] * rho;
        }
    }
}

// From the world outward for one tip: the twists xi of all nodes by the columns, m.xi_parent into `behind_`, and half of the tangent of motion times
// the columns, m.xi_parent + t (m.s + k) / 2, into `ahead`. `solve`: also the columns of a tree. `twists`: of the tips in their own axes, (6e, 6).
template <bool solve>
void PassesInterior::carry(int e, Eight* columns, Eight* ahead, Matrix& twists) {
    const int n = static_cast<int>(nodes_.size());
    const Eight* inward = &path_columns_[e * stride_];
    Eight* behind = &behind_[e * stride_];
    Eight xi[6] = {};
    for (int i = grounded_; i < n; ++i) {
        const unsigned char flags = flags_[i];
        if (based_[i] || flags & branches)
            for (int r = 0; r < 6; ++r) xi[r] = based_[i] ? every(0.0) : twists_[nodes_[i].parent * 6 + r];
        if (nodes_[i].size == 1) {
            const Eliminated& out = eliminated_[i];
            if (solve) columns[i] = out.inverse == 0 ? every(0.0) : -(inward[i] + times(numbers(out.part), xi));
            const Eight turn = columns[i];
            const double *m = numbers(inertia_[i]), *s = numbers(out.screw);
            behind[i] = times(m, xi);
            ahead[i] = behind[i] + (0.5 * m[7]) * turn;
            for (int r = 0; r < 6; ++r) xi[r] += s[r] * turn;
        }
        if (flags & joins)
            for (int r = 0; r < 6; ++r) twists_[i * 6 + r] = xi[r];
    }
    for (int f = 0; f < count(); ++f) {
        Mat6 rows;
        for (int r = 0; r < 6; ++r) rows.row(r) = first_six(twists_[tip_node(f) * 6 + r]);
        twists.block<6, 6>(6 * f, 6 * e) = to_tip_[f].lazyProduct(rows);
    }
}

// The tangent of motion between the basis (B of the step's first tangent) and the present B, and the twists of the tips by both.
void PassesInterior::project_columns(Response& response) {
    const int first = grounded_, n = static_cast<int>(nodes_.size()) - first;
    for (int e = 0; e < count(); ++e) {
        Eight *columns = &columns_[e * stride_], *ahead = &ahead_[e * stride_];
        tie_rows_ > 0 ? carry<false>(e, columns, ahead, response.compliance) : carry<true>(e, columns, ahead, response.compliance);
        if (has_first_) carry<false>(e, &first_[e * stride_], &first_ahead_[e * stride_], left_);
        auto own = response.anchor.block<6, 6>(6 * e, 6 * e);
        own = turning(lambda.segment<6>(6 * e));
        own.diagonal() += boost_ * anchor.segment<6>(6 * e);
    }
    if (has_first_) response.left = left_.transpose();
    else response.left = response.compliance;  // symmetric
    // half of it, and the transposed other half, which is the same half if B is the basis
    for (int e = 0; e < count(); ++e)
        for (int f = 0; f < count(); ++f) {
            Mat6 half = sum_of_products(&basis()[e * stride_ + first], &ahead_[f * stride_ + first], n);
            if (has_first_) half += sum_of_products(&columns_[f * stride_ + first], &first_ahead_[e * stride_ + first], n).transpose();
            response.inertia.block<6, 6>(6 * e, 6 * f) = half;
        }
    for (int e = 0; e < count() && !has_first_; ++e)
        for (int f = 0; f <= e; ++f) {
            auto block = response.inertia.block<6, 6>(6 * e, 6 * f);
            const Mat6 whole = Mat6(block) + Mat6(response.inertia.block<6, 6>(6 * f, 6 * e)).transpose();
            block = whole;
            response.inertia.block<6, 6>(6 * f, 6 * e) = whole.transpose();
        }
}

// From the world outward: the residual of motion and its tangent along the correction to balance, projected onto the basis; for trees also that
// correction.
void PassesInterior::project_corrections(Response& response) {
    const int n = static_cast<int>(nodes_.size());
    Eight eta = every(0.0);
    eta[6] = 1;
    const Eight start = eta;
    for (int i = grounded_; i < n; ++i) {
        const unsigned char flags = flags_[i];
        if (based_[i])
            eta = start;
        else if (flags & branches)
            eta = outward_[nodes_[i].parent];
        if (nodes_[i].size == 1) {
            const Eliminated& out = eliminated_[i];
            double correction = correction_[i];
            if (tie_rows_ == 0 && out.inverse == 0) rho_[i] = sum(out.part * eta);
            if (tie_rows_ == 0 && out.inverse != 0) correction_[i] = correction = -sum(out.part * eta);
            along_[i] = sum(inertia_[i] * eta) + inertia_[i][7] * correction;
            eta += correction * out.screw;
        }
        if (flags & (joins | fronted)) outward_[i] = eta;
    }
    const Eigen::Index last = lambda.size();
    for (int e = 0; e < count(); ++e) {
        const Eight *onto = &basis()[e * stride_], *behind = &behind_[e * stride_];
        Eight force = every(0.0), drift = every(0.0);
        for (int i = grounded_; i < n; ++i) {
            force -= motion_[i] * onto[i];
            drift += along_[i] * onto[i] + correction_[i] * behind[i];
        }
        response.force.segment<6>(6 * e) = first_six(force);
        response.inertia.col(last).segment<6>(6 * e) = first_six(drift);
    }
}

// The projections of motion onto the basis, and the twists of the tips.
void PassesInterior::project(const Step& step, bool fresh, Response& response) {
    if (fresh) project_columns(response);
    project_corrections(response);
    add_coupling_dampers(step, fresh, response);
    for (int e = 0; e < count(); ++e) response.drift.segment<6>(6 * e) = in_frame(about_origin(e), outward_[tip_node(e)]);
}

void PassesInterior::add_coupling_dampers(const Step& step, bool fresh, Response& response) {
    const Eigen::Index rows = lambda.size();
    for (const Coupling& c : couplings_) {
        if (c.damping == 0) continue;
        const Vector along = length_by_columns(c, basis());
        double length = 0, slope;
        for (std::size_t i = 0; i < c.nodes.size(); ++i) length += c.coefficients[i] * correction_[c.nodes[i]];
        coupling_drag(c, step, slope);
        response.inertia.col(rows) += (slope * length) * along;
        if (fresh) response.inertia.leftCols(rows) += slope * along * length_by_columns(c, columns_).transpose();
    }
}

Vector PassesInterior::length_by_columns(const Coupling& c, const std::vector<Eight>& columns) const {
    Vector length = Vector::Zero(lambda.size());
    for (int e = 0; e < count(); ++e)
        for (std::size_t i = 0; i < c.nodes.size(); ++i) length.segment<6>(6 * e) += c.coefficients[i] * first_six(columns[e * stride_ + c.nodes[i]]);
    return length;
}

// The tangent of motion of each coordinate, projected onto the basis: with V the sum of t m over the coordinates beyond it,
// V s + m.xi_parent + t (m.s + k), where t and xi_parent are of the basis. The tips' wrenches are part of V.
void PassesInterior::compute_motion_by_coordinates(const Step& step, const Matrix& wrenches) {
    const int n = static_cast<int>(nodes_.size());
    for (int e = 0; e < count(); ++e) {
        const Eight *onto = &basis()[e * stride_], *behind = &behind_[e * stride_];
        Eight* motion = &motion_by_coordinate_[e * stride_];
        for (int i : joined_) std::fill_n(&twists_[i * 6], 6, every(0.0));  // sums of V
        for (int f = 0; f < count(); ++f) {
            const Mat6 by_twist = wrenches.block<6, 6>(6 * e, 6 * f) * to_tip_[f];
            for (int r = 0; r < 6; ++r) twists_[tip_node(f) * 6 + r] -= six_lanes(by_twist.col(r));
        }
        Eight V[6] = {};
        for (int i = n - 1; i >= 0; --i) {
            const unsigned char flags = flags_[i];
            for (int r = 0; r < 6; ++r) {
                if (!(flags & chained)) V[r] = every(0.0);
                if (flags & joins) V[r] += twists_[i * 6 + r];
            }
            if (nodes_[i].size == 1) {
                const double* m = numbers(inertia_[i]);
                motion[i] = behind[i] + m[7] * onto[i] + times(numbers(eliminated_[i].screw), V);
                for (int r = 0; r < 6; ++r) V[r] += m[r] * onto[i];
            }
            if (flags & branches && !(flags & rooted))
                for (int r = 0; r < 6; ++r) twists_[nodes_[i].parent * 6 + r] += V[r];
        }
        for (const Coupling& c : couplings_) {
            if (c.damping == 0) continue;
            double slope;
            coupling_drag(c, step, slope);
            const Eight along = slope * six_lanes(length_by_columns(c, basis()).segment<6>(6 * e));
            for (std::size_t i = 0; i < c.nodes.size(); ++i) motion[c.nodes[i]] += c.coefficients[i] * along;
        }
    }
}

}  // namespace supple
