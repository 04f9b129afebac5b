// The columns of B and the projections of the equation of motion onto them: for each tip six right-hand sides at a time.
#include <algorithm>

#include "condensed/condensed_passes.hpp"
#include "engine/articulated_exact.hpp"

namespace supple {

namespace {
// rows += sum of left right^T
void add_products(const Eight* left, const Eight* right, int count, Eight* rows) {
    for (int i = 0; i < count; ++i) {
        const double* by = numbers(left[i]);
        for (int r = 0; r < 6; ++r) rows[r] += by[r] * right[i];
    }
}

// Stores rows as six numbers of columns.
SUPPLE_INLINE void store_transposed(const Eight* rows, double* to, Eigen::Index stride) {
    for (int r = 0; r < 6; ++r) store_six(to + r * stride, rows[r]);
}

SUPPLE_INLINE Three turned_back(const Mat3& R, const Three& v) {  // R^T v
    return {R(0, 0) * v.x + R(1, 0) * v.y + R(2, 0) * v.z, R(0, 1) * v.x + R(1, 1) * v.y + R(2, 1) * v.z,
            R(0, 2) * v.x + R(1, 2) * v.y + R(2, 2) * v.z};
}
}  // namespace

// B: the responses to unit wrenches on the tips, in their own axes. For trees only the pass inward, `carry` makes the other. The paths of
// two tips are passed together, so that the operations of one do not wait for those of the other.
void PassesInterior::compute_columns() {
    const int n = static_cast<int>(nodes_.size());
    for (int e = 0; e < count() && tie_rows_ > 0; ++e) {
        on_any_path_.assign(n, 1);
        const Mat6 wrenches = adjoint(about_origin(e).inverse());  // rows
        ContactRow rows[6];
        for (int c = 0; c < 6; ++c) {
            rows[c].node = tip_node(e);
            rows[c].wrench = wrenches.row(c);
        }
        solve_eight(rows, 6);
        for (int i = 0; i < n; ++i)
            if (nodes_[i].size == 1) columns_[e * stride_ + i] = responses_->turn[i];
        std::copy_n(responses_->tie.data(), tie_rows_, &tie_columns_[e * tie_rows_]);
    }
    for (int e = 0; e < count() && tie_rows_ == 0; e += 2) {
        const int together = std::min(2, count() - e);
        Eight right[2][6];
        int at[2] = {-1, -1};
        for (int k = 0; k < together; ++k) {
            const Pose tip = about_origin(e + k);
            at[k] = tip_node(e + k);
            for (int r = 0; r < 3; ++r) {
                const Vec3 axis = tip.R.row(r), moment = tip.R.transpose() * tip.p.cross(Vec3::Unit(r));
                right[k][r] = Eight{-axis[0], -axis[1], -axis[2], 0, 0, 0, 0, 0};
                right[k][3 + r] = Eight{moment[0], moment[1], moment[2], -axis[0], -axis[1], -axis[2], 0, 0};
            }
        }
        while (at[0] >= 0 || at[1] >= 0)
            for (int k = 0; k < 2; ++k) {
                const int i = at[k];
                if (i < 0) continue;
                at[k] = nodes_[i].parent;
                if (nodes_[i].size == 0) continue;
                const Eliminated& out = eliminated_[i];
                const Eight rho = combined(numbers(out.screw), right[k], every(0.0));
                path_columns_[(e + k) * stride_ + i] = out.inverse * rho;
                if (out.inverse == 0) continue;
                const double* u = numbers(out.upart);
                for (int r = 0; r < 6; ++r) right[k][r] -= u[r] * rho;
            }
    }
}

// From the world outward for `together` tips from e on: the twists xi of all nodes by the columns, m.xi_parent into `behind_`, and half of the
// tangent of motion times the columns, m.xi_parent + t (m.s + k) / 2, into `ahead`. `solve`: also the columns of a tree. `twists`: of the tips
// in their own axes, transposed, (6, 6e) for each tip.
template <bool solve, int together>
void PassesInterior::carry(int e, std::vector<Eight>& all_columns, std::vector<Eight>& all_ahead, Matrix& twists) {
    const int n = static_cast<int>(nodes_.size());
    Eight xi[together][6] = {};
    for (int i = grounded_; i < n; ++i) {
        const unsigned char flags = flags_[i];
        if (based_[i] || flags & branches)
            for (int k = 0; k < together; ++k)
                for (int r = 0; r < 6; ++r) xi[k][r] = based_[i] ? every(0.0) : twists_[(nodes_[i].parent * 2 + k) * 6 + r];
        if (nodes_[i].size == 1) {
            const Eliminated& out = eliminated_[i];
            const double *m = numbers(inertia_[i]), *s = numbers(out.screw);
            for (int k = 0; k < together; ++k) {
                const int at = (e + k) * stride_ + i;
                if (solve) all_columns[at] = out.inverse == 0 ? every(0.0) : -combined(numbers(out.part), xi[k], path_columns_[at]);
                const Eight turn = all_columns[at], behind = combined(m, xi[k], every(0.0));
                behind_[at] = behind;
                all_ahead[at] = behind + (0.5 * m[7]) * turn;
                for (int r = 0; r < 6; ++r) xi[k][r] += s[r] * turn;
            }
        }
        if (flags & joins)
            for (int k = 0; k < together; ++k)
                for (int r = 0; r < 6; ++r) twists_[(i * 2 + k) * 6 + r] = xi[k][r];
    }
    for (int f = 0; f < count(); ++f) {
        const Pose at = about_origin(f);
        for (int k = 0; k < together; ++k) {
            const Eight* tip = &twists_[(tip_node(f) * 2 + k) * 6];
            const Three w = three(tip + 3), linear = turned_back(at.R, three(tip) + cross(w, every(at.p))), angular = turned_back(at.R, w);
            const Eight rows[6] = {linear.x, linear.y, linear.z, angular.x, angular.y, angular.z};
            store_transposed(rows, &twists(6 * (e + k), 6 * f), twists.rows());
        }
    }
}

void PassesInterior::carry_all(bool solve, std::vector<Eight>& columns, std::vector<Eight>& ahead, Matrix& twists) {
    int e = 0;
    for (; e + 1 < count(); e += 2) solve ? carry<true, 2>(e, columns, ahead, twists) : carry<false, 2>(e, columns, ahead, twists);
    if (e < count()) solve ? carry<true, 1>(e, columns, ahead, twists) : carry<false, 1>(e, columns, ahead, twists);
}

// The tangent of motion between the basis (B of the step's first tangent) and the present B, and the twists of the tips by both.
void PassesInterior::project_columns(Response& response) {
    const int first = grounded_, n = static_cast<int>(nodes_.size()) - first;
    carry_all(tie_rows_ == 0, columns_, ahead_, response.compliance);  // symmetric
    if (has_first_) carry_all(false, first_, first_ahead_, response.left);
    else response.left = response.compliance;
    for (int e = 0; e < count(); ++e) {
        Mat6 own = turning(lambda.segment<6>(6 * e));
        own.diagonal() += boost_ * anchor.segment<6>(6 * e);
        response.anchor.block<6, 6>(6 * e, 6 * e) = own;
    }
    // sum of basis ahead^T + (ahead of the basis) B^T; symmetric if B is the basis
    const Eight *onto = &basis()[first], *onto_ahead = has_first_ ? &first_ahead_[first] : &ahead_[first];
    const Eigen::Index rows = response.inertia.rows();
    for (int e = 0; e < count(); ++e)
        for (int f = 0; f < (has_first_ ? count() : e + 1); ++f) {
            Eight block[8] = {}, transposed[8];
            add_products(onto + e * stride_, &ahead_[f * stride_ + first], n, block);
            if (e == f && !has_first_) {
                std::copy_n(block, 8, transposed);
                transpose(transposed);
                for (int r = 0; r < 6; ++r) block[r] += transposed[r];
            } else {
                add_products(onto_ahead + e * stride_, &columns_[f * stride_ + first], n, block);
                std::copy_n(block, 8, transposed);
                transpose(transposed);
                store_transposed(transposed, &response.inertia(6 * e, 6 * f), rows);
            }
            if (!has_first_) store_transposed(block, &response.inertia(6 * f, 6 * e), rows);
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
            const Mat6 by_twist = wrenches.block<6, 6>(6 * e, 6 * f) * adjoint(about_origin(f).inverse());
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
                motion[i] = behind[i] + m[7] * onto[i] + combined(numbers(eliminated_[i].screw), V, every(0.0));
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
