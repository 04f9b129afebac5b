#include "contact/world.hpp"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace supple {

namespace {
constexpr double relative_regularisation = 1e-4;  // of W_nn, relative to the smallest one
constexpr double far_below = 1e-3;  // a W_nn over another one that does not count beside it
constexpr double creep = 1e-5;  // m/s: largest normal velocity that the regularisation may cause
}  // namespace

Pose World::pose(int i) const {
    const MountedCollider& c = colliders[i];
    return c.participant < 0 ? c.collider.local : participants[c.participant]->frame(c.frame) * c.collider.local;
}

void World::prepare() {
    bounded_.clear();
    unbounded_.clear();
    for (int i = 0; i < static_cast<int>(colliders.size()); ++i)
        (colliders[i].collider.unbounded() ? unbounded_ : bounded_).push_back(i);
    poses_.resize(colliders.size());
    speed_.assign(colliders.size(), 0.0);
    swept_radius_.assign(colliders.size(), 0.0);
    rows_.resize(participants.size());
    self_contact.resize(participants.size(), 0);
}

double World::energy() const {
    double sum = 0;
    for (const Participant* each : participants) sum += each->energy();
    for (const Pad& pad : pads) sum += pad.energy();
    return sum;
}

// Pairs whose swept bounding spheres overlap: sweep and prune along x for bounded colliders; each of them with every
// unbounded one.
void World::find_candidate_pairs() {
    candidate_pairs_.clear();
    auto reach = [&](int i) { return swept_radius_[i]; };
    auto low = [&](int i) { return poses_[i].p[0] - swept_radius_[i]; };
    for (int i : bounded_) swept_radius_[i] = 1.01 * colliders[i].collider.bounding_radius + h * speed_[i];
    for (std::size_t k = 1; k < bounded_.size(); ++k)  // insertion sort: the order hardly changes between steps
        for (std::size_t m = k; m > 0 && low(bounded_[m]) < low(bounded_[m - 1]); --m)
            std::swap(bounded_[m], bounded_[m - 1]);
    auto may = [&](int i, int j) {
        const MountedCollider &a = colliders[i], &b = colliders[j];
        if ((a.participant < 0 || a.still) && (b.participant < 0 || b.still)) return false;  // neither moves
        if (a.participant == b.participant && (a.frame == b.frame || !self_contact[a.participant])) return false;
        if (!(a.type & b.affinity) && !(b.type & a.affinity)) return false;
        return excluded.empty() || !excluded.count({std::min(i, j), std::max(i, j)});
    };
    for (std::size_t k = 0; k < bounded_.size(); ++k) {
        const int i = bounded_[k];
        const double end = poses_[i].p[0] + reach(i);
        for (std::size_t m = k + 1; m < bounded_.size() && low(bounded_[m]) <= end; ++m) {
            const int j = bounded_[m];
            const double both = reach(i) + reach(j);
            if ((poses_[i].p - poses_[j].p).squaredNorm() > both * both || !may(i, j)) continue;
            candidate_pairs_.emplace_back(std::min(i, j), std::max(i, j));
        }
        for (int j : unbounded_)
            if (may(i, j)) candidate_pairs_.emplace_back(i, j);
    }
    std::sort(candidate_pairs_.begin(), candidate_pairs_.end());  // an order that does not depend on the sweep
}

void World::collide_pair(int i, int j, double horizon) {
    const Collider &a = colliders[i].collider, &b = colliders[j].collider;
    const double size = std::min(a.bounding_radius, b.bounding_radius);
    const double motion = horizon * (speed_[i] + speed_[j]), margin = 0.002 * size + motion;
    if (colliders[i].pad >= 0 || colliders[j].pad >= 0) return collide_pads(i, j, 0.001 * size + motion);
    ContactPoint points[most_points];
    Vec3& apart = apart_.try_emplace({i, j}, Vec3::Zero()).first->second;
    const int count = can_touch(a.kind, b.kind) ? collide(a, poses_[i], b, poses_[j], margin, points, &apart) : 0;
    for (int k = 0; k < count; ++k) {
        const Vec3 local = poses_[i].R.transpose() * (points[k].point - poses_[i].p);
        contacts_.push_back({i, j, points[k], Vec3::Zero(), Vec3::Zero(), local, {}});
    }
}

// Contacts of a pad, or of two: the points of the first one with the surface of the second, or the other way round if
// only the first has one.
void World::collide_pads(int i, int j, double margin) {
    const bool swapped = colliders[i].pad < 0 || (colliders[j].pad >= 0 && colliders[j].collider.triangles.empty());
    const int soft = swapped ? j : i, other = swapped ? i : j;
    pad_contacts_.clear();
    collide_pad(colliders[soft].collider, poses_[soft], pads[colliders[soft].pad], colliders[other].collider,
                poses_[other], margin, pad_contacts_);
    for (PadContact& found : pad_contacts_) {
        Contact contact{i, j, found.at, Vec3::Zero(), Vec3::Zero(), colliders[soft].collider.vertices[found.point], {}};
        if (swapped) contact.at.normal = -contact.at.normal;
        contact.place[swapped] = {colliders[soft].pad, 1, {found.point, 0, 0}, {1, 0, 0}};
        if (found.other.count) {
            contact.place[!swapped] = found.other;
            contact.place[!swapped].pad = colliders[other].pad;
        }
        contacts_.push_back(contact);
    }
}

void World::detect(double horizon) {
    for (std::size_t i = 0; i < colliders.size(); ++i) {
        poses_[i] = pose(static_cast<int>(i));
        const MountedCollider& c = colliders[i];
        if (c.participant < 0 || horizon == 0) {
            speed_[i] = 0;
            continue;
        }
        const Vec6 velocity = participants[c.participant]->free_velocity(c.frame);
        const double arm = c.collider.local.p.norm() +
                           (std::isfinite(c.collider.bounding_radius) ? c.collider.bounding_radius : 0);
        speed_[i] = velocity.head<3>().norm() + velocity.tail<3>().norm() * arm;
    }
    find_candidate_pairs();
    contacts_.clear();
    for (const auto& [i, j] : candidate_pairs_) collide_pair(i, j, horizon);
}

// Initial guess: the impulses of the previous step. A contact of that step is the same if it is between the same
// colliders and near the same point of the first one.
void World::warm_start() {
    std::size_t start = 0;
    for (std::size_t c = 0; c < contacts_.size(); ++c) {
        const Contact& now = contacts_[c];
        const auto key = std::make_pair(now.first, now.second);
        while (start < previous_.size() && std::make_pair(previous_[start].first, previous_[start].second) < key)
            ++start;
        const Contact* nearest = nullptr;
        double distance = 0.05 * std::min(colliders[now.first].collider.bounding_radius,
                                          colliders[now.second].collider.bounding_radius);
        for (std::size_t k = start;
             k < previous_.size() && std::make_pair(previous_[k].first, previous_[k].second) == key; ++k) {
            const double d = (previous_[k].local - now.local).norm();
            if (d < distance) {
                distance = d;
                nearest = &previous_[k];
            }
        }
        if (!nearest) continue;
        Eigen::Map<Vec3>(&solver_.p[3 * c]) = frames_[c].transpose() * nearest->impulse;
        if (solver_.moment[c] < 0) continue;
        const Vec3 along = frames_[c].transpose() * nearest->moment, lengths = lengths_[solver_.moment[c]];
        for (int r = 0; r < 3; ++r)
            solver_.p[solver_.moment_row(solver_.moment[c]) + r] = lengths[r] > 0 ? along[r] / lengths[r] : 0;
    }
}

// As warm_start, for limits: a limit is the same if it is the same side of the same row.
void World::warm_start_limits() {
    auto kept = limit_impulses.begin();
    for (std::size_t k = 0; k < participants.size(); ++k)
        for (std::size_t l = 0; l < rows_[k].limits.size(); ++l) {  // both lists are in order
            const Limit& now = rows_[k].limits[l];
            const auto key = std::make_tuple(static_cast<int>(k), now.row, -now.sign);
            auto of = [](const LimitImpulse& each) { return std::make_tuple(each.participant, each.row, -each.sign); };
            while (kept != limit_impulses.end() && of(*kept) < key) ++kept;
            if (kept != limit_impulses.end() && of(*kept) == key) solver_.p[rows_[k].first_limit + l] = kept->impulse;
        }
}

int World::participant_of_limit(int limit) const {
    for (std::size_t k = 0; k < participants.size(); ++k) {
        const int own = static_cast<int>(rows_[k].limits.size());
        if (limit < own) return static_cast<int>(k);
        limit -= own;
    }
    return -1;
}

void World::keep_limit_impulses() {
    limit_impulses.clear();
    for (std::size_t k = 0; k < participants.size(); ++k)
        for (std::size_t l = 0; l < rows_[k].limits.size(); ++l) {
            const double impulse = solver_.p[rows_[k].first_limit + l];
            if (impulse > 0 && !rows_[k].touches.empty())
                limit_impulses.push_back(
                    {static_cast<int>(k), rows_[k].limits[l].row, rows_[k].limits[l].sign, impulse});
        }
}

void World::ParticipantRows::gather_impulses(const Numbers& p) {
    impulses.resize(3 * touches.size() + limits.size());
    for (std::size_t i = 0; i < touches.size(); ++i) std::copy_n(&p[3 * contacts[i]], 3, &impulses[3 * i]);
    for (std::size_t l = 0; l < limits.size(); ++l) impulses[3 * touches.size() + l] = p[first_limit + l];
}

// Touches of every participant: those of all contacts, then those of moments.
void World::place_touches() {
    const int n = static_cast<int>(contacts_.size());
    for (ParticipantRows& block : rows_) {
        block.touches.clear();
        block.contacts.clear();
    }
    auto place = [&](int c, int index, const Mat3& axes, bool moment) {
        for (int side = 0; side < 2; ++side) {
            const MountedCollider& by = colliders[side ? contacts_[c].second : contacts_[c].first];
            if (by.participant < 0) continue;
            rows_[by.participant].touches.push_back(
                {by.frame, contacts_[c].at.point, side ? Mat3(-axes) : axes, moment});
            rows_[by.participant].contacts.push_back(index);
        }
    };
    for (int c = 0; c < n; ++c) place(c, c, frames_[c], false);
    for (std::size_t m = 0; m < with_moments_.size(); ++m)
        place(with_moments_[m], n + static_cast<int>(m), moment_axes(static_cast<int>(m)), true);
}

void World::assemble() {
    const int n = static_cast<int>(contacts_.size());
    frames_.resize(n);
    for (int c = 0; c < n; ++c) frames_[c] = contact_frame(contacts_[c].at.normal);
    find_moments();
    const int moments = static_cast<int>(with_moments_.size());
    int limits = 0;
    for (std::size_t k = 0; k < participants.size(); ++k) {
        ParticipantRows& block = rows_[k];
        block.limits.clear();
        participants[k]->limits(block.limits);
        block.first_limit = 3 * (n + moments) + limits;
        limits += static_cast<int>(block.limits.size());
    }
    place_touches();
    solver_.resize(n, moments, limits);
    for (int m = 0; m < moments; ++m) solver_.moment[with_moments_[m]] = m;
    warm_start();
    warm_start_limits();
    add_participants();
    add_gaps();
    add_pads();
}

// Adds the free velocities and the responses of all participants.
void World::add_participants() {
    const int n = static_cast<int>(contacts_.size());
    symmetric_ = true;
    for (std::size_t k = 0; k < participants.size(); ++k) {
        ParticipantRows& block = rows_[k];
        block.gather_impulses(solver_.p);
        participants[k]->predict(block.touches, block.impulses.data());
        const int touches = static_cast<int>(block.touches.size()), own_limits = static_cast<int>(block.limits.size());
        const int rows = 3 * touches + own_limits;
        if (!rows) continue;
        block.free.resize(rows);
        block.response.resize(static_cast<std::size_t>(rows) * rows);
        participants[k]->respond(block.touches, block.limits, block.free.data(), block.response.data());
        symmetric_ = symmetric_ && participants[k]->symmetric();
        double most = 0;
        for (int i = 0; i < rows; ++i) most = std::max(most, block.response[static_cast<std::size_t>(i) * (rows + 1)]);
        for (int c : block.contacts)
            if (c < n) solver_.max_response[c] = std::max(solver_.max_response[c], most);
        const Eigen::Map<const Eigen::MatrixXd> response(block.response.data(), rows, rows);
        // contacts of a mechanism with itself appear twice
        const bool contiguous = !own_limits && !self_contact[k] &&
                                block.contacts.back() - block.contacts.front() + 1 == touches;
        if (contiguous) {  // the rows are contiguous in the solver, too
            const int first = 3 * block.contacts.front();
            for (int j = 0; j < rows; ++j) {
                solver_.b[first + j] += block.free[j];
                double* to = &solver_.W(first, first + j);
                const double* values = response.col(j).data();
                for (int i = 0; i < rows; ++i) to[i] += values[i];
            }
            continue;
        }
        auto row = [&](int i) { return i < touches ? 3 * block.contacts[i] : block.first_limit + (i - touches); };
        for (int j = 0; j < touches + own_limits; ++j) {
            const int column = row(j), from = j < touches ? 3 * j : 3 * touches + (j - touches),
                      wide = j < touches ? 3 : 1;
            for (int c = 0; c < wide; ++c) {
                solver_.b[column + c] += block.free[from + c];
                const double* values = response.col(from + c).data();
                for (int i = 0; i < touches; ++i, values += 3) {
                    double* to = &solver_.W(3 * block.contacts[i], column + c);
                    to[0] += values[0];
                    to[1] += values[1];
                    to[2] += values[2];
                }
                for (int l = 0; l < own_limits; ++l) solver_.W(block.first_limit + l, column + c) += values[l];
            }
        }
        for (int l = 0; l < own_limits; ++l)
            solver_.b[block.first_limit + l] += std::max(block.limits[l].gap / h, -10 * correction);
    }
}

void World::add_gaps() {
    find_bounces();
    for (std::size_t c = 0; c < contacts_.size(); ++c) {
        const Contact& contact = contacts_[c];
        const ContactLaw law = law_of(contact);
        solver_.friction[c] = law.condim > 1 ? law.friction : 0.0;
        const bool yields = compliance > 0 || contact.soft();
        solver_.b[3 * c] += std::max(contact.at.gap / h, yields ? contact.at.gap / h : -correction);
        // its own compliance: gap + h v_n = -compliance f_n with f = p / h
        if (!contact.soft() && !solver_.blocked(c)) solver_.W(3 * c, 3 * c) += compliance / (h * h);
    }
    for (const Bounce& each : bounces_) solver_.b[3 * each.contact] += each.offset;
}

// Adds the compliance and the past displacements of pads to the contact problem: see pad.hpp.
void World::add_pads() {
    pad_rows_.resize(pads.size());
    for (PadRows& rows : pad_rows_) {
        rows.contacts.clear();
        rows.sides.clear();
        rows.axes.clear();
    }
    for (int c = 0; c < static_cast<int>(contacts_.size()); ++c)
        for (int side = 0; side < 2; ++side) {
            const Contact& contact = contacts_[c];
            const PadPlace& place = contact.place[side];
            if (place.pad < 0) continue;
            const double sign = side ? -1 : 1, theta = pads[place.pad].relaxed_share(h);
            PadRows& rows = pad_rows_[place.pad];
            rows.contacts.push_back(c);
            rows.sides.push_back(side);
            rows.axes.push_back(sign * (poses_[side ? contact.second : contact.first].R.transpose() * frames_[c]));
            const Vec3 past = rows.axes.back().transpose() * pads[place.pad].displacement(place);
            solver_.b[3 * c] += (1 - theta) * past[0] / h;
            solver_.b[3 * c + 1] -= theta * past[1] / h;
            solver_.b[3 * c + 2] -= theta * past[2] / h;
        }
    for (std::size_t k = 0; k < pads.size(); ++k) {
        const PadRows& rows = pad_rows_[k];
        const double factor = pads[k].relaxed_share(h) / (h * h);
        auto place = [&](std::size_t i) -> const PadPlace& { return contacts_[rows.contacts[i]].place[rows.sides[i]]; };
        double most = 0;
        for (std::size_t i = 0; i < rows.contacts.size(); ++i)
            for (std::size_t j = 0; j <= i; ++j) {
                const Mat3 block = factor *
                                   (rows.axes[i].transpose() * pads[k].compliance(place(i), place(j)) * rows.axes[j]);
                const int a = 3 * rows.contacts[i], b = 3 * rows.contacts[j];
                for (int r = 0; r < 3; ++r)
                    for (int q = 0; q < 3; ++q) {
                        solver_.W(a + r, b + q) += block(r, q);
                        if (i != j) solver_.W(b + q, a + r) += block(r, q);
                    }
                if (i == j) most = std::max(most, block.diagonal().maxCoeff());
            }
        for (int c : rows.contacts) solver_.max_response[c] = std::max(solver_.max_response[c], most);
    }
}

void World::advance_pads() {
    for (std::size_t k = 0; k < pads.size(); ++k) {
        const PadRows& rows = pad_rows_[k];
        const int n = pads[k].points();
        Pad::Loads loads{Eigen::VectorXd::Zero(3 * n), Eigen::VectorXd::Zero(3 * n), Eigen::VectorXd::Zero(n)};
        for (std::size_t i = 0; i < rows.contacts.size(); ++i) {
            const int c = rows.contacts[i];
            const PadPlace& place = contacts_[c].place[rows.sides[i]];
            const Vec3 force = rows.axes[i] * Vec3(&solver_.p[3 * c]) / h, normal = rows.axes[i].col(0);
            for (int m = 0; m < place.count; ++m) {
                const int point = place.points[m];
                loads.forces.segment<3>(3 * point) += place.shares[m] * force;
                loads.normals.segment<3>(3 * point) += place.shares[m] * normal;
                loads.friction[point] = std::max(loads.friction[point], solver_.friction[c]);
            }
        }
        pads[k].advance(std::move(loads), h);
    }
}

// Adds to every W_nn but those of pads, which do not need it, and those of contacts that cannot move along their
// normals, a small regularisation that makes the impulses of redundant contacts unique. With the present impulses it
// causes a velocity of `creep` at most. It is the same for all contacts, relative to the smallest W_nn, unless that is
// far below the contact's own: one contact that can hardly move must not leave the impulses of another, wedged one
// undetermined.
void World::regularise() {
    double most = 0, least = INFINITY;
    auto regularised = [&](int c) { return !solver_.blocked(c) && !contacts_[c].soft(); };
    auto own = [&](int c) { return solver_.W(3 * c, 3 * c) - regularisation_[c] - compliance / (h * h); };
    const int n = static_cast<int>(contacts_.size());
    for (int c = 0; c < n; ++c) {
        if (!regularised(c)) continue;
        most = std::max(most, solver_.p[3 * c]);
        least = std::min(least, own(c));
    }
    for (int c = 0; c < n; ++c) {
        if (!regularised(c)) continue;
        const double fresh = std::min(relative_regularisation * std::max(least, far_below * own(c)), creep / most);
        solver_.W(3 * c, 3 * c) += fresh - regularisation_[c];
        regularisation_[c] = fresh;
    }
}

// Whether the regularisation causes more than ten times `creep` with the present impulses.
bool World::regularised_too_much() const {
    for (std::size_t c = 0; c < contacts_.size(); ++c)
        if (regularisation_[c] * solver_.p[3 * c] > 10 * creep) return true;
    return false;
}

void World::solve() {
    regularisation_.assign(contacts_.size(), 0.0);
    regularise();
    solver_.solve(symmetric_);
    for (int k = 0; k < 3 && regularised_too_much(); ++k) {
        regularise();
        solver_.solve(true);
    }
}

bool World::has_any_step() const {
    auto has = [](const Participant* each) { return each->has_any_step(); };
    return std::all_of(participants.begin(), participants.end(), has);
}

void World::set_step(double length) {
    for (Participant* each : participants) each->set_step(length);
    for (std::vector<Contact>* all : {&contacts_, &previous_})
        for (Contact& contact : *all) {
            contact.impulse *= length / h;
            contact.moment *= length / h;
        }
    for (LimitImpulse& each : limit_impulses) each.impulse *= length / h;
    h = length;
}

// The contact problem is linear in the impulses, the motion of a mechanism is not: the contact force, which is constant
// during the step, may turn a light body out of the direction in which it supports the force. False if a point in
// contact has another velocity than computed, by more than the largest one without contact.
bool World::moved_as_computed(int participant) const {
    const ParticipantRows& block = rows_[participant];
    const int touches = static_cast<int>(block.touches.size()), rows = static_cast<int>(block.impulses.size());
    const Eigen::Map<const Eigen::VectorXd> free(block.free.data(), rows), impulses(block.impulses.data(), rows);
    const Eigen::Map<const Eigen::MatrixXd> response(block.response.data(), rows, rows);
    double largest = correction, error = 0;
    for (int i = 0; i < touches; ++i) {
        const Touch& touch = block.touches[i];
        if (touch.moment || impulses.segment<3>(3 * i).isZero(0)) continue;
        const Vec3 local = touched_frames_[i].inverse().act(touch.point);
        const Vec3 moved = participants[participant]->frame(touch.frame).act(local) - touch.point;
        const Vec3 computed = free.segment<3>(3 * i) + response.middleRows<3>(3 * i) * impulses;
        largest = std::max(largest, free.segment<3>(3 * i).norm());
        error = std::max(error, (touch.axes.transpose() * moved / h - computed).norm());
    }
    return error <= largest;
}

World::Outcome World::step() {
    const Outcome outcome = attempt();
    if (outcome != impact) return outcome;
    for (Participant* each : participants) each->expect_impact(true);
    const Outcome second = attempt();
    if (second != done)
        for (Participant* each : participants) each->expect_impact(false);
    return second;
}

World::Outcome World::attempt() {
    failed_participant_ = -1;
    auto give_up = [&](std::size_t begun, Outcome outcome) {
        const bool second = std::any_of(participants.begin(), participants.begin() + begun,
                                        [](const Participant* p) { return p->second_order(); });
        for (std::size_t i = 0; i < begun; ++i) participants[i]->abandon();
        contacts_ = previous_;
        return second && outcome == no_solution ? impact : outcome;
    };
    for (std::size_t k = 0; k < participants.size(); ++k)
        if (!participants[k]->begin()) {
            failed_participant_ = static_cast<int>(k);
            return give_up(k + 1, no_solution);
        }
    detect(h);
    if (contacts_.size() > most_contacts) return give_up(participants.size(), too_many);
    assemble();
    solve();
    limit_bounces();
    if (meets_impact()) return give_up(participants.size(), impact);
    for (double value : solver_.p)
        if (!std::isfinite(value)) return give_up(participants.size(), not_finite);
    for (std::size_t c = 0; c < contacts_.size(); ++c) {
        contacts_[c].impulse = frames_[c] * Vec3(&solver_.p[3 * c]);
        const int m = solver_.moment[c];
        if (m >= 0) contacts_[c].moment = moment_axes(m) * Vec3(&solver_.p[solver_.moment_row(m)]);
    }
    for (ParticipantRows& block : rows_) block.gather_impulses(solver_.p);
    for (std::size_t k = 0; k < participants.size(); ++k) {
        const ParticipantRows& block = rows_[k];
        const bool check = checks_motion && !block.touches.empty() && !participants[k]->linear() && has_any_step();
        touched_frames_.clear();
        if (check)
            for (const Touch& touch : block.touches) touched_frames_.push_back(participants[k]->frame(touch.frame));
        const bool finished = participants[k]->finish(block.touches, block.limits, block.impulses.data());
        if (finished && (!check || moved_as_computed(static_cast<int>(k)))) continue;
        failed_participant_ = static_cast<int>(k);
        return give_up(participants.size(), no_solution);
    }
    advance_pads();
    previous_ = contacts_;
    keep_limit_impulses();
    time += h;
    return done;
}

void World::set_previous_contacts(std::vector<Contact> contacts) {
    previous_ = std::move(contacts);
    contacts_ = previous_;
}

}  // namespace supple
