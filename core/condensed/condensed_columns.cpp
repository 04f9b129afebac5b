// The columns of B and the projections of the equation of motion onto them, eight right-hand sides at a time.
#include <algorithm>
#include <type_traits>

#include "condensed/condensed_passes.hpp"
#include "engine/articulated_exact.hpp"

namespace supple {

namespace {
template <class Call>
void with_groups(int groups, Call call) {  // call(constant)
    static_assert(PassesInterior::most_columns == 6);
    switch (groups) {
        case 1: return call(std::integral_constant<int, 1>{});
        case 2: return call(std::integral_constant<int, 2>{});
        case 3: return call(std::integral_constant<int, 3>{});
        case 4: return call(std::integral_constant<int, 4>{});
        case 5: return call(std::integral_constant<int, 5>{});
        default: return call(std::integral_constant<int, 6>{});
    }
}

}  // namespace

void PassesInterior::compute_columns() {
    if (tie_rows_ > 0) return solve_columns();
    with_groups(groups_, [&](auto k) { start_columns<k()>(); });
}

void PassesInterior::compute_motion_by_coordinates(const Matrix& wrenches) {
    with_groups(groups_, [&](auto k) { compute_motion_by_coordinates<k()>(wrenches); });
}

// The projections of motion onto the basis, and the twists of the tips.
void PassesInterior::project(const Step& step, bool fresh, Response& response) {
    with_groups(groups_, [&](auto k) {
        if (fresh) project_columns<k()>(response);
        project_corrections<k()>(response);
    });
    add_coupling_dampers(step, fresh, response);
    for (std::size_t e = 0; e < tips.size(); ++e)
        response.drift.segment<6>(6 * e) = in_frame(about_origin(static_cast<int>(e)), outward_[tip_node(static_cast<int>(e))]);
}

// The tangent of motion of each coordinate, projected onto the basis: with V the sum of t m over the coordinates beyond it,
// V s + m.xi_parent + t (m.s + k), where t and xi_parent are of the basis. The tips' wrenches are part of V.
template <int K>
void PassesInterior::compute_motion_by_coordinates(const Matrix& wrenches) {
    const int n = static_cast<int>(nodes_.size());
    const std::vector<Eight>& onto_all = basis();
    for (int i : joined_) std::fill_n(&twists_[i * 6 * K], 6 * K, every(0.0));  // sums of V
    for (std::size_t e = 0; e < tips.size(); ++e) {
        const Matrix by_twist = wrenches.middleCols<6>(6 * e) * adjoint(about_origin(static_cast<int>(e)).inverse());
        for (Eigen::Index row = 0; row < by_twist.rows(); ++row)
            for (int r = 0; r < 6; ++r)
                twists_[(tip_node(static_cast<int>(e)) * 6 + r) * K + row / width][row % width] -= by_twist(row, r);
    }
    Eight V[6][K] = {};
    for (int i = n - 1; i >= 0; --i) {
        const unsigned char flags = flags_[i];
        if (!(flags & chained) || flags & joins)
            for (int r = 0; r < 6; ++r)
                for (int k = 0; k < K; ++k) {
                    if (!(flags & chained)) V[r][k] = every(0.0);
                    if (flags & joins) V[r][k] += twists_[(i * 6 + r) * K + k];
                }
        if (nodes_[i].size == 1) {
            alignas(64) double s[width], m[width];
            store(s, eliminated_[i].screw);
            store(m, inertia_[i]);
            for (int k = 0; k < K; ++k) {
                const Eight& onto = onto_all[i * K + k];
                Eight sum = behind_[i * K + k] + m[7] * onto;
                for (int r = 0; r < 6; ++r) {
                    sum += s[r] * V[r][k];
                    V[r][k] += m[r] * onto;
                }
                motion_by_coordinate_[i * K + k] = sum;
            }
        }
        if (flags & branches && !(flags & rooted))
            for (int r = 0; r < 6; ++r)
                for (int k = 0; k < K; ++k) twists_[(nodes_[i].parent * 6 + r) * K + k] += V[r][k];
    }
}

// The pass inward of unit wrenches on the tips of a tree, in the tips' own axes. `project_columns` completes B in its pass outward.
template <int K>
void PassesInterior::start_columns() {
    const int n = static_cast<int>(nodes_.size());
    for (int i : joined_) std::fill_n(&twists_[i * 6 * K], 6 * K, every(0.0));  // sums of wrenches, negative
    for (std::size_t e = 0; e < tips.size(); ++e) {
        const int node = tip_node(static_cast<int>(e));
        const Mat6 wrenches = adjoint(about_origin(static_cast<int>(e)).inverse()).transpose();
        for (int r = 0; r < 6; ++r)
            for (int c = 0; c < 6; ++c) {
                const int column = 6 * static_cast<int>(e) + c;
                twists_[(node * 6 + r) * K + column / width][column % width] -= wrenches(r, c);
            }
    }
    Eight right[6][K] = {};
    for (int i = n - 1; i >= 0; --i) {
        const unsigned char flags = flags_[i];
        if (!on_tip_path_[i]) {
            std::fill_n(&columns_[i * K], K, every(0.0));
            continue;
        }
        const bool chain = flags & chained && on_tip_path_[i + 1];
        if (!chain || flags & joins)
            for (int r = 0; r < 6; ++r)
                for (int k = 0; k < K; ++k) {
                    if (!chain) right[r][k] = every(0.0);
                    if (flags & joins) right[r][k] += twists_[(i * 6 + r) * K + k];
                }
        if (nodes_[i].size == 1) {
            const Eliminated& out = eliminated_[i];
            alignas(64) double s[width], u[width];
            store(s, out.screw);
            store(u, out.upart);
            for (int k = 0; k < K; ++k) {
                const Eight rho = (s[0] * right[0][k] + s[1] * right[1][k]) + (s[2] * right[2][k] + s[3] * right[3][k]) +
                                  (s[4] * right[4][k] + s[5] * right[5][k]);
                columns_[i * K + k] = out.inverse * rho;
                if (out.inverse != 0)
                    for (int r = 0; r < 6; ++r) right[r][k] -= u[r] * rho;
            }
        }
        if (flags & branches && !(flags & rooted))
            for (int r = 0; r < 6; ++r)
                for (int k = 0; k < K; ++k) twists_[(nodes_[i].parent * 6 + r) * K + k] += right[r][k];
    }
}

// B: the responses to unit wrenches on the tips, in their own axes.
void PassesInterior::solve_columns() {
    const int n = static_cast<int>(nodes_.size()), columns = static_cast<int>(lambda.size());
    unit_wrenches_.resize(columns);
    for (std::size_t e = 0; e < tips.size(); ++e) {
        const Pose at = about_origin(static_cast<int>(e));
        for (int c = 0; c < 6; ++c) {
            ContactRow& row = unit_wrenches_[6 * e + c];
            row.node = tip_node(static_cast<int>(e));
            row.wrench = in_world(at, Vec6::Unit(c));
        }
    }
    on_any_path_.assign(n, 1);
    for (int k = 0; k < groups_; ++k) {
        solve_eight(&unit_wrenches_[width * k], std::min(width, columns - width * k));
        for (int i = 0; i < n; ++i)
            if (nodes_[i].size == 1) columns_[i * groups_ + k] = responses_->turn[i];
        for (int r = 0; r < tie_rows_; ++r) tie_columns_[r * groups_ + k] = responses_->tie[r];
    }
}

// From the world outward: B, the tangent of motion between the basis (B of the step's first tangent) and the present B, and the twists of
// the tips by both.
template <int K>
void PassesInterior::project_columns(Response& response) {
    const int n = static_cast<int>(nodes_.size()), rows = static_cast<int>(lambda.size());
    Eight now[6][K] = {}, first[6][K] = {};
    Eight inertia[width * K][K] = {}, mirrored[width * K][K] = {};  // the tangent is the first plus the transposed second, equal if B is the basis
    auto times = [&](const double* by, const Eight (*of)[K], int k) {
        return (by[0] * of[0][k] + by[1] * of[1][k]) + (by[2] * of[2][k] + by[3] * of[3][k]) + (by[4] * of[4][k] + by[5] * of[5][k]);
    };
    for (int i = 0; i < n; ++i) {
        const unsigned char flags = flags_[i];
        if (flags & (rooted | branches))
            for (int r = 0; r < 6; ++r)
                for (int k = 0; k < K; ++k) {
                    const int at = flags & rooted ? 0 : (nodes_[i].parent * 6 + r) * K + k;
                    now[r][k] = flags & rooted ? every(0.0) : twists_[at];
                    first[r][k] = flags & rooted ? every(0.0) : first_twists_[at];
                }
        if (nodes_[i].size == 1) {
            alignas(64) double s[width], m[width], part[width];
            store(s, eliminated_[i].screw);
            store(m, inertia_[i]);
            Eight *turn = &columns_[i * K], *behind = &behind_[i * K];
            if (tie_rows_ == 0) {
                store(part, eliminated_[i].part);
                const bool locked = eliminated_[i].inverse == 0;
                for (int k = 0; k < K; ++k) turn[k] = locked ? every(0.0) : -(turn[k] + times(part, now, k));
            }
            auto accumulate = [&](Eight (*sums)[K], const Eight* left, const Eight (*twist)[K], const Eight* right) {
                const double* by = reinterpret_cast<const double*>(left);
                for (int k = 0; k < K; ++k) {
                    behind[k] = times(m, twist, k);
                    const Eight ahead = behind[k] + (0.5 * m[7]) * right[k];
                    for (int r = 0; r < rows; ++r) sums[r][k] += by[r] * ahead;
                }
            };
            accumulate(inertia, has_first_ ? &first_[i * K] : turn, now, turn);
            if (has_first_) accumulate(mirrored, turn, first, &first_[i * K]);
            for (int k = 0; k < K; ++k)
                for (int r = 0; r < 6; ++r) {
                    now[r][k] += s[r] * turn[k];
                    if (has_first_) first[r][k] += s[r] * first_[i * K + k];
                }
        }
        if (flags & joins)
            for (int r = 0; r < 6; ++r)
                for (int k = 0; k < K; ++k) {
                    twists_[(i * 6 + r) * K + k] = now[r][k];
                    first_twists_[(i * 6 + r) * K + k] = first[r][k];
                }
    }
    const auto* transposed = has_first_ ? mirrored : inertia;
    for (int r = 0; r < rows; ++r)
        for (int c = 0; c < rows; ++c) response.inertia(r, c) = inertia[r][c / width][c % width] + transposed[c][r / width][r % width];
    for (std::size_t e = 0; e < tips.size(); ++e) {
        const int node = tip_node(static_cast<int>(e));
        const Mat6 Ad = adjoint(about_origin(static_cast<int>(e)).inverse());
        auto own = response.anchor.block<6, 6>(6 * e, 6 * e);
        own = turning(lambda.segment<6>(6 * e));
        own.diagonal() += boost_ * anchor.segment<6>(6 * e);
        auto columns = [&](const std::vector<Eight>& of, int c) {
            Vec6 twist;
            for (int r = 0; r < 6; ++r) twist[r] = of[(node * 6 + r) * K + c / width][c % width];
            return Vec6(Ad * twist);
        };
        for (int c = 0; c < rows; ++c) {
            response.compliance.col(c).segment<6>(6 * e) = columns(twists_, c);
            if (has_first_) response.left.row(c).segment<6>(6 * e) = columns(first_twists_, c).transpose();
        }
    }
    if (!has_first_) response.left = response.compliance;  // symmetric
}

// From the world outward: the residual of motion and its tangent along the correction to balance, projected onto the basis; for trees also that
// correction.
template <int K>
void PassesInterior::project_corrections(Response& response) {
    const int n = static_cast<int>(nodes_.size()), rows = static_cast<int>(lambda.size());
    const std::vector<Eight>& onto_all = basis();
    Eight force[K] = {}, drift[K] = {}, eta = every(0.0);
    eta[6] = 1;
    const Eight start = eta;
    for (int i = 0; i < n; ++i) {
        const unsigned char flags = flags_[i];
        if (flags & rooted)
            eta = start;
        else if (flags & branches)
            eta = outward_[nodes_[i].parent];
        if (nodes_[i].size == 1) {
            const Eliminated& out = eliminated_[i];
            if (tie_rows_ == 0) (out.inverse == 0 ? rho_[i] : correction_[i]) = (out.inverse == 0 ? 1 : -1) * sum(out.part * eta);
            const double correction = correction_[i], ahead = sum(inertia_[i] * eta) + inertia_[i][7] * correction;
            eta += correction * out.screw;
            for (int k = 0; k < K; ++k) {
                force[k] -= motion_[i] * onto_all[i * K + k];
                drift[k] += ahead * onto_all[i * K + k] + correction * behind_[i * K + k];
            }
        }
        if (flags & (joins | fronted)) outward_[i] = eta;
    }
    for (int r = 0; r < rows; ++r) {
        response.force[r] = force[r / width][r % width];
        response.inertia(r, rows) = drift[r / width][r % width];
    }
}

void PassesInterior::add_coupling_dampers(const Step& step, bool fresh, Response& response) {
    const int rows = static_cast<int>(lambda.size());
    for (const Coupling& c : couplings_) {
        if (c.damping == 0) continue;
        Vector along = Vector::Zero(rows), length = Vector::Zero(rows + 1);
        for (std::size_t i = 0; i < c.nodes.size(); ++i) {
            const int node = c.nodes[i];
            for (int r = 0; r < rows; ++r) {
                along[r] += c.coefficients[i] * basis()[node * groups_ + r / width][r % width];
                length[r] += c.coefficients[i] * columns_[node * groups_ + r / width][r % width];
            }
            length[rows] += c.coefficients[i] * correction_[node];
        }
        double by;
        coupling_drag(c, step, by);
        for (int k = fresh ? 0 : rows; k <= rows; ++k) response.inertia.col(k) += (by * length[k]) * along;
    }
}

}  // namespace supple
