#include "zones/skin.hpp"

#include <Eigen/Cholesky>
#include <algorithm>
#include <stdexcept>

#include "spatial/dense.hpp"

namespace supple::zones {

namespace {

// Place of each amplitude, given with the components side by side, when the components of a seam follow one another.
std::vector<int> component_order(const std::vector<int>& starts, const std::vector<int>& functions) {
    std::vector<int> order;
    for (std::size_t s = 0; s < functions.size(); ++s)
        for (int k = 0; k < 3; ++k)
            for (int m = 0; m < functions[s]; ++m) order.push_back(starts[s] + 3 * m + k);
    return order;
}

MatrixXd with_columns(const MatrixXd& a, const std::vector<int>& columns) {
    MatrixXd result(a.rows(), columns.size());
    for (std::size_t j = 0; j < columns.size(); ++j) result.col(j) = a.col(columns[j]);
    return result;
}

MatrixXd with_rows(const MatrixXd& a, const std::vector<int>& rows) {
    MatrixXd result(rows.size(), a.cols());
    for (std::size_t i = 0; i < rows.size(); ++i) result.row(i) = a.row(rows[i]);
    return result;
}

// into^(ij) += sum over k, l of R_ik R_jl K^(kl), i.e. blockdiag(R) K blockdiag(R)^T. `lower`: only i >= j.
void add_turned(const Mat3& R, const std::vector<MatrixXd>& K, int rows, int columns, bool lower, bool set,
                MatrixXd& into) {
    std::vector<double> half(9 * rows);
    for (int c = 0; c < columns; ++c) {
        const double* in[9];
        for (int i = 0; i < 9; ++i) in[i] = K[i].data() + static_cast<std::ptrdiff_t>(c) * rows;
        for (int i = 0; i < 3; ++i)
            for (int l = 0; l < 3; ++l) {
                double* out = half.data() + (3 * i + l) * rows;
                const double *a = in[l], *b = in[3 + l], *d = in[6 + l];
                const double r0 = R(i, 0), r1 = R(i, 1), r2 = R(i, 2);
                for (int r = 0; r < rows; ++r) out[r] = r0 * a[r] + r1 * b[r] + r2 * d[r];
            }
        for (int j = 0; j < 3; ++j)
            for (int i = lower ? j : 0; i < 3; ++i) {
                double* out = into.data() + (static_cast<std::ptrdiff_t>(j) * columns + c) * into.rows() + i * rows;
                const double *a = half.data() + 3 * i * rows, *b = a + rows, *d = b + rows;
                const double r0 = R(j, 0), r1 = R(j, 1), r2 = R(j, 2);
                if (set)
                    for (int r = 0; r < rows; ++r) out[r] = r0 * a[r] + r1 * b[r] + r2 * d[r];
                else
                    for (int r = 0; r < rows; ++r) out[r] += r0 * a[r] + r1 * b[r] + r2 * d[r];
            }
    }
}

// blockdiag(R) v for a vector (3 m) whose components follow one another
template <class Vector>
void turn(const Mat3& R, const Vector& v, Eigen::Index m, VectorXd& into) {
    into.resize(3 * m);
    for (int i = 0; i < 3; ++i)
        into.segment(i * m, m) = R(i, 0) * v.segment(0, m) + R(i, 1) * v.segment(m, m) + R(i, 2) * v.segment(2 * m, m);
}

}  // namespace

Terms::Terms(std::vector<int> of_seams, const MatrixXd& K, const MatrixXd& A, const MatrixXd& U,
             const MatrixXd& surface_motion, const MatrixXd& surface_affine)
    : functions(std::move(of_seams)), starts{0} {
    for (int m : functions) starts.push_back(starts.back() + 3 * m);
    const auto places = component_order(starts, functions);
    stiffness = with_columns(with_rows(K, places), places);
    affine = with_rows(A, places);
    motion = with_columns(U, places);
    MatrixXd both(surface_motion.rows(), surface_motion.cols() + surface_affine.cols());
    both << with_columns(surface_motion, places), surface_affine;
    surface = both.cast<float>();
    for (std::size_t a = 0; a < functions.size(); ++a)
        for (std::size_t b = 0; b < functions.size(); ++b) {
            blocks.emplace_back();
            for (int r = 0; r < 3; ++r)
                for (int c = 0; c < 3; ++c)
                    blocks.back().push_back(stiffness.block(starts[a] + r * functions[a], starts[b] + c * functions[b],
                                                            functions[a], functions[b]));
        }
}

Skin::Skin(std::vector<Zone> zones, std::vector<Seam> seams, std::vector<int> order,
           std::vector<std::vector<int>> below, int vertices)
    : zones_(std::move(zones)),
      seams_(std::move(seams)),
      order_(std::move(order)),
      below_(std::move(below)),
      vertices_(3 * vertices) {
    const int n = static_cast<int>(seams_.size());
    std::vector<int> rank(n);
    for (int i = 0; i < n; ++i) rank[order_[i]] = i;
    slots_.assign(n * n, -1);
    const auto add_slot = [&](int i, int j) {
        slots_[i * n + j] = static_cast<int>(blocks_.size());
        blocks_.emplace_back(MatrixXd::Zero(3 * seams_[i].functions.cols(), 3 * seams_[j].functions.cols()));
    };
    for (int j : order_) {
        add_slot(j, j);
        for (int i : below_[j]) add_slot(i, j);
    }
    filled_.resize(blocks_.size());
    for (int k = 0; k < static_cast<int>(zones_.size()); ++k) {
        const Zone& zone = zones_[k];
        const int count = static_cast<int>(zone.seams.size());
        for (int a = 0; a < count; ++a)
            for (int b = 0; b < count; ++b)
                if (rank[zone.seams[a]] >= rank[zone.seams[b]])
                    couplings_.push_back({k, a, b, zone.seams[a], zone.seams[b]});
        std::vector<Pose> others;
        for (int s : zone.seams)
            for (int other : seams_[s].zones) others.push_back(zone.reference.seen_from(zones_[other].reference));
        to_other_.push_back(std::move(others));
        affine_.emplace_back(zone.terms->affine.cols());
        surface_result_.emplace_back(zone.terms->surface.rows());
    }
    amplitudes_.resize(n);
    frames_.resize(zones_.size());
    carried_.resize(zones_.size());
}

void Skin::move(const double* poses, int bodies) {
    find_frames(poses, bodies);
    find_affine();
    assemble();
    factorise();
    std::vector<MatrixXd> rhs;
    for (const Seam& seam : seams_) rhs.emplace_back(MatrixXd::Zero(3 * seam.functions.cols(), 1));
    VectorXd turned;
    for (std::size_t k = 0; k < zones_.size(); ++k) {
        const VectorXd own = zones_[k].terms->affine * affine_[k];
        for (std::size_t a = 0; a < zones_[k].seams.size(); ++a) {
            const int s = zones_[k].seams[a];
            const Eigen::Index m = seams_[s].functions.cols();
            turn(frames_[k].R, own.segment(zones_[k].terms->starts[a], 3 * m), m, turned);
            rhs[s].col(0) -= turned;
        }
    }
    std::vector<bool> zero(seams_.size(), false);
    solve_lower(rhs, zero);
    solve_upper(rhs);
    for (std::size_t s = 0; s < seams_.size(); ++s) amplitudes_[s] = rhs[s].col(0);
}

void Skin::find_frames(const double* poses, int bodies) {
    for (std::size_t k = 0; k < zones_.size(); ++k) {
        const Zone& zone = zones_[k];
        carried_[k].clear();
        for (std::size_t i = 0; i < zone.bodies.size(); ++i) {
            Pose H;
            if (zone.bodies[i] >= bodies) throw std::invalid_argument("body out of range");
            if (zone.bodies[i] >= 0) {
                const double* rows = poses + 16 * zone.bodies[i];
                for (int r = 0; r < 3; ++r) {
                    for (int c = 0; c < 3; ++c) H.R(r, c) = rows[4 * r + c];
                    H.p[r] = rows[4 * r + 3];
                }
            }
            carried_[k].push_back(H * zone.on_body[i]);
        }
        frames_[k] = carried_[k][0];
        if (carried_[k].size() == 2) {  // half-way
            Vec6 twist = log(carried_[k][1].seen_from(carried_[k][0]));
            for (int i = 0; i < 6; ++i) twist[i] *= 0.5;
            frames_[k] = carried_[k][0] * exp(twist);
        }
    }
}

void Skin::find_affine() {
    const auto write = [](const Mat3& M, const Vec3& t, double* into) {
        for (int r = 0; r < 3; ++r)
            for (int c = 0; c < 3; ++c) into[3 * r + c] = M(r, c) - (r == c);
        for (int r = 0; r < 3; ++r) into[9 + r] = t[r];
    };
    for (std::size_t k = 0; k < zones_.size(); ++k) {
        double* into = affine_[k].data();
        std::size_t other = 0;
        for (int s : zones_[k].seams) {
            Mat3 M = Mat3::Zero();
            Vec3 t = Vec3::Zero();
            for (int z : seams_[s].zones) {
                const Pose seen = (frames_[z] * to_other_[k][other++]).seen_from(frames_[k]);
                M += seen.R;
                t += seen.p;
            }
            const double share = 1.0 / static_cast<double>(seams_[s].zones.size());
            write(share * M, share * t, into);
            into += affine_size;
        }
        for (int b = 0; b < zones_[k].bones; ++b, into += affine_size) {
            const Pose seen = carried_[k][b].seen_from(frames_[k]);
            write(seen.R, seen.p, into);
        }
    }
}

void Skin::assemble() {
    std::fill(filled_.begin(), filled_.end(), false);
    for (const Coupling& c : couplings_) {
        const int at = slot(c.row_seam, c.column_seam);
        const Terms& terms = *zones_[c.zone].terms;
        add_turned(frames_[c.zone].R, terms.blocks[c.row * terms.functions.size() + c.column], terms.functions[c.row],
                   terms.functions[c.column], c.row == c.column, !filled_[at], blocks_[at]);
        filled_[at] = true;
    }
    for (std::size_t i = 0; i < blocks_.size(); ++i)
        if (!filled_[i]) blocks_[i].setZero();
}

void Skin::factorise() {
    for (int j : order_) {
        MatrixXd& diagonal = blocks_[slot(j, j)];
        if (diagonal.rows() == 0) continue;
        Eigen::LLT<Eigen::Ref<MatrixXd>, Eigen::Lower> factor(diagonal);  // in place
        if (factor.info() != Eigen::Success) throw std::runtime_error("the seam equations are not positive definite");
        for (int i : below_[j])
            diagonal.triangularView<Eigen::Lower>().transpose().solveInPlace<Eigen::OnTheRight>(blocks_[slot(i, j)]);
        for (std::size_t a = 0; a < below_[j].size(); ++a)
            for (std::size_t b = 0; b <= a; ++b) {
                const int i = below_[j][a], k = below_[j][b];
                MatrixXd& target = blocks_[slot(i, k)];
                const MatrixXd &left = blocks_[slot(i, j)], &right = blocks_[slot(k, j)];
                if (i == k) target.selfadjointView<Eigen::Lower>().rankUpdate(left, -1.0);
                else target.noalias() -= left * right.transpose();
            }
    }
}

void Skin::solve_lower(std::vector<MatrixXd>& x, std::vector<bool>& zero) const {
    for (int j : order_) {
        if (x[j].rows() == 0 || zero[j]) continue;
        blocks_[slot(j, j)].triangularView<Eigen::Lower>().solveInPlace(x[j]);
        for (int i : below_[j]) {
            x[i].noalias() -= blocks_[slot(i, j)] * x[j];
            zero[i] = false;
        }
    }
}

void Skin::solve_upper(std::vector<MatrixXd>& x) const {
    for (auto j = order_.rbegin(); j != order_.rend(); ++j) {
        if (x[*j].rows() == 0) continue;
        for (int i : below_[*j]) x[*j].noalias() -= blocks_[slot(i, *j)].transpose() * x[i];
        blocks_[slot(*j, *j)].triangularView<Eigen::Lower>().transpose().solveInPlace(x[*j]);
    }
}

VectorXd Skin::zone_amplitudes(int k) const {
    VectorXd result(zones_[k].terms->starts.back()), turned;
    const Mat3 R = frames_[k].R.transpose();
    for (std::size_t a = 0; a < zones_[k].seams.size(); ++a) {
        const int s = zones_[k].seams[a];
        turn(R, amplitudes_[s], seams_[s].functions.cols(), turned);
        result.segment(zones_[k].terms->starts[a], turned.size()) = turned;
    }
    return result;
}

double Skin::energy() const {
    double total = 0;
    for (std::size_t k = 0; k < zones_.size(); ++k) {
        const VectorXd c = zone_amplitudes(static_cast<int>(k)), &a = affine_[k];
        const Terms& terms = *zones_[k].terms;
        const VectorXd Kc = terms.stiffness * c, Aa = terms.affine * a, Sa = terms.affine_stiffness * a;
        total += 0.5 * (c.dot(Kc) + a.dot(Sa)) + c.dot(Aa);
    }
    return total;
}

const std::vector<double>& Skin::vertices() {
    const auto put = [&](int vertex, const Vec3& at) {
        for (int i = 0; i < 3; ++i) vertices_[3 * vertex + i] = at[i];
    };
    VectorXf held;
    for (std::size_t k = 0; k < zones_.size(); ++k) {
        const Zone& zone = zones_[k];
        const VectorXd c = zone_amplitudes(static_cast<int>(k));
        held.resize(c.size() + affine_[k].size());
        held << c.cast<float>(), affine_[k].cast<float>();
        VectorXf& u = surface_result_[k];
        u.noalias() = zone.terms->surface * held;
        for (std::size_t v = 0; v < zone.surface_vertices.size(); ++v) {
            Vec3 x;
            for (int i = 0; i < 3; ++i) x[i] = zone.terms->surface_nodes(i, v) + u[3 * v + i];
            put(zone.surface_vertices[v], frames_[k].act(x));
        }
        for (std::size_t v = 0; v < zone.carried_vertices.size(); ++v)
            put(zone.carried_vertices[v], carried_[k][zone.carried_bones[v]].act(Vec3(zone.carried_nodes.col(v))));
    }
    for (std::size_t s = 0; s < seams_.size(); ++s)
        for (std::size_t i = 0; i < seams_[s].vertices.size(); ++i)
            put(seams_[s].vertices[i], point({-1, static_cast<int>(s), static_cast<int>(i)}));
    return vertices_;
}

Vec3 Skin::point(const TouchPoint& at) const {
    if (at.zone >= 0) {
        const Terms& terms = *zones_[at.zone].terms;
        const VectorXd c = zone_amplitudes(at.zone), &a = affine_[at.zone];
        Vec3 x;
        for (int i = 0; i < 3; ++i) {
            const int row = 3 * at.row + i;
            x[i] = terms.nodes(i, at.row) + terms.motion.row(row).dot(c) + terms.affine_motion.row(row).dot(a);
        }
        return frames_[at.zone].act(x);
    }
    const Seam& seam = seams_[at.seam];
    const int first = seam.zones[0];
    const Vec3 x = seam.nodes.col(at.row);
    Vec3 y = Vec3::Zero();
    int other = 0;
    for (int s : zones_[first].seams) {  // mean of the places to which the zones carry the node
        for (int z : seams_[s].zones) {
            if (s == at.seam) y += (frames_[z] * to_other_[first][other]).act(x);
            ++other;
        }
    }
    const Eigen::Index m = seam.functions.cols();
    const double share = 1.0 / static_cast<double>(seam.zones.size());
    for (int i = 0; i < 3; ++i)
        y[i] = share * y[i] + seam.functions.row(at.row).dot(amplitudes_[at.seam].segment(i * m, m));
    return y;
}

void Skin::compliance(const std::vector<TouchPoint>& points, MatrixXd& into) {
    const Eigen::Index p = static_cast<Eigen::Index>(points.size());
    std::vector<MatrixXd> B;  // by seam: amplitudes' loads per force, (3 m, 3 p)
    for (const Seam& seam : seams_) B.emplace_back(MatrixXd::Zero(3 * seam.functions.cols(), 3 * p));
    std::vector<bool> zero(seams_.size(), true);
    MatrixXd half;
    for (Eigen::Index q = 0; q < p; ++q) {
        const TouchPoint& at = points[q];
        if (at.zone < 0) {
            const Seam& seam = seams_[at.seam];
            const Eigen::Index m = seam.functions.cols();
            zero[at.seam] = false;
            for (int i = 0; i < 3; ++i)
                B[at.seam].col(3 * q + i).segment(i * m, m) = seam.functions.row(at.row).transpose();
            continue;
        }
        const Mat3& R = frames_[at.zone].R;
        for (std::size_t a = 0; a < zones_[at.zone].seams.size(); ++a) {
            const int s = zones_[at.zone].seams[a], first = zones_[at.zone].terms->starts[a];
            const Eigen::Index m = seams_[s].functions.cols();
            zero[s] = false;
            half.noalias() = zones_[at.zone].terms->motion.block(3 * at.row, first, 3, 3 * m).transpose() *
                             R.transpose();
            for (int i = 0; i < 3; ++i)  // row i of R U blockdiag(R)^T
                for (int j = 0; j < 3; ++j)
                    B[s].col(3 * q + i).segment(j * m, m) = R(j, 0) * half.col(i).segment(0, m) +
                                                            R(j, 1) * half.col(i).segment(m, m) +
                                                            R(j, 2) * half.col(i).segment(2 * m, m);
        }
    }
    solve_lower(B, zero);
    into.setZero(3 * p, 3 * p);
    for (std::size_t s = 0; s < B.size(); ++s)
        if (B[s].rows() && !zero[s]) into.selfadjointView<Eigen::Lower>().rankUpdate(B[s].transpose());
    into.triangularView<Eigen::StrictlyUpper>() = into.transpose();
    for (Eigen::Index q = 0; q < p; ++q)
        for (Eigen::Index r = 0; r < p; ++r) {
            if (points[q].zone < 0 || points[q].zone != points[r].zone) continue;
            const Mat3& R = frames_[points[q].zone].R;
            const Mat3 G = zones_[points[q].zone].terms->compliance.block<3, 3>(3 * points[q].row, 3 * points[r].row);
            into.block<3, 3>(3 * q, 3 * r) += R * G * Mat3(R.transpose());
        }
    for (int s = 0; s < static_cast<int>(seams_.size()); ++s) add_residual(s, points, into);
}

void Skin::add_residual(int s, const std::vector<TouchPoint>& points, MatrixXd& into) const {
    const Residual& residual = seams_[s].residual;
    if (residual.angles.empty()) return;
    const int first = seams_[s].zones[0], second = seams_[s].zones[1];
    struct Near {
        Eigen::Index point, place;
        const Mat3* R;
    };
    std::vector<Near> near;
    for (std::size_t q = 0; q < points.size(); ++q) {
        const TouchPoint& at = points[q];
        int place = -1;
        if (at.zone == first) place = residual.first[at.row];
        if (at.zone == second) place = residual.second[at.row];
        if (at.zone < 0 && at.seam == s) place = residual.own[at.row];
        if (place >= 0)
            near.push_back(
                {static_cast<Eigen::Index>(3 * q), 3 * place, &frames_[at.zone == second ? second : first].R});
    }
    if (near.empty()) return;
    const Mat3 rest = zones_[first].reference.R.transpose() * zones_[second].reference.R;
    const Mat3 turn = frames_[first].R.transpose() * frames_[second].R * Mat3(rest.transpose());
    const auto& angles = residual.angles;
    const double angle = std::clamp(residual.axis.dot(so3_log(turn)), angles.front(), angles.back());
    std::size_t low = 0;
    while (low + 2 < angles.size() && angles[low + 1] < angle) ++low;
    const std::size_t high = std::min(low + 1, angles.size() - 1);
    const double share = high > low ? (angle - angles[low]) / (angles[high] - angles[low]) : 0.0;
    for (const Near& a : near)
        for (const Near& b : near) {
            const Mat3 C = (1 - share) * residual.compliances[low].block<3, 3>(a.place, b.place) +
                           share * residual.compliances[high].block<3, 3>(a.place, b.place);
            into.block<3, 3>(a.point, b.point) += *a.R * C * Mat3(b.R->transpose());
        }
}

}  // namespace supple::zones
