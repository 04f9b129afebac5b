#include "world.hpp"

#include <algorithm>
#include <cmath>

namespace supple {

namespace {
constexpr double give = 1e-4;   // of contacts along their normals, over what the least of them gives
constexpr double creep = 1e-5;  // m/s at most by that
}  // namespace

Pose World::pose(int i) const {
    const Carried& c = solids[i];
    return c.participant < 0 ? c.solid.local : participants[c.participant]->frame(c.frame) * c.solid.local;
}

void World::prepare() {
    sorted_.clear();
    endless_.clear();
    for (int i = 0; i < static_cast<int>(solids.size()); ++i)
        (solids[i].solid.endless() ? endless_ : sorted_).push_back(i);
    poses_.resize(solids.size());
    speed_.assign(solids.size(), 0.0);
    reach_.assign(solids.size(), 0.0);
    shares_.resize(participants.size());
}

double World::energy() const {
    double sum = 0;
    for (const Participant* each : participants) sum += each->energy();
    return sum;
}

// Pairs whose surroundings meet: a sweep along x over what is bounded, and all of it against what is endless.
void World::pairs() {
    near_.clear();
    auto reach = [&](int i) { return reach_[i]; };
    auto low = [&](int i) { return poses_[i].p[0] - reach_[i]; };
    for (int i : sorted_) reach_[i] = 1.01 * solids[i].solid.reach + h * speed_[i];
    for (std::size_t k = 1; k < sorted_.size(); ++k)  // nearly sorted already
        for (std::size_t m = k; m > 0 && low(sorted_[m]) < low(sorted_[m - 1]); --m) std::swap(sorted_[m], sorted_[m - 1]);
    auto may = [&](int i, int j) {
        const Carried &a = solids[i], &b = solids[j];
        if (a.participant == b.participant) return false;  // one body, one mechanism, or nothing that moves
        return (a.type & b.affinity) || (b.type & a.affinity);
    };
    for (std::size_t k = 0; k < sorted_.size(); ++k) {
        const int i = sorted_[k];
        const double end = poses_[i].p[0] + reach(i);
        for (std::size_t m = k + 1; m < sorted_.size() && low(sorted_[m]) <= end; ++m) {
            const int j = sorted_[m];
            const double both = reach(i) + reach(j);
            if ((poses_[i].p - poses_[j].p).squaredNorm() > both * both || !may(i, j)) continue;
            near_.emplace_back(std::min(i, j), std::max(i, j));
        }
        for (int j : endless_)
            if (may(i, j)) near_.emplace_back(i, j);
    }
    std::sort(near_.begin(), near_.end());  // the same order whatever the sweep met first
}

void World::collide_pair(int i, int j, double horizon) {
    const Solid &a = solids[i].solid, &b = solids[j].solid;
    const double size = std::min(a.reach, b.reach);
    const double margin = 0.01 * size + horizon * (speed_[i] + speed_[j]);
    ContactPoint points[most_points];
    const int count = compiled(a.kind, b.kind) ? collide(a, poses_[i], b, poses_[j], margin, points)
                      : narrow                 ? narrow(i, j, margin, points)
                                               : 0;
    for (int k = 0; k < count; ++k) {
        const Vec3 local = poses_[i].R.transpose() * (points[k].point - poses_[i].p);
        contacts_.push_back({i, j, points[k], Vec3::Zero(), local});
    }
}

void World::detect(double horizon) {
    for (std::size_t i = 0; i < solids.size(); ++i) {
        poses_[i] = pose(static_cast<int>(i));
        const Carried& c = solids[i];
        if (c.participant < 0 || horizon == 0) {
            speed_[i] = 0;
            continue;
        }
        const Vec6 drift = participants[c.participant]->drift(c.frame);
        const double arm = c.solid.local.p.norm() + (std::isfinite(c.solid.reach) ? c.solid.reach : 0);
        speed_[i] = drift.head<3>().norm() + drift.tail<3>().norm() * arm;
    }
    pairs();
    contacts_.clear();
    for (const auto& [i, j] : near_) collide_pair(i, j, horizon);
}

// First guess: the impulses of the last step, known again by where they acted on the first solid.
void World::guess() {
    std::size_t start = 0;
    for (std::size_t c = 0; c < contacts_.size(); ++c) {
        const Contact& now = contacts_[c];
        const auto key = std::make_pair(now.first, now.second);
        while (start < before_.size() && std::make_pair(before_[start].first, before_[start].second) < key) ++start;
        const Contact* nearest = nullptr;
        double distance = 0.05 * std::min(solids[now.first].solid.reach, solids[now.second].solid.reach);
        for (std::size_t k = start; k < before_.size() && std::make_pair(before_[k].first, before_[k].second) == key; ++k) {
            const double d = (before_[k].local - now.local).norm();
            if (d < distance) {
                distance = d;
                nearest = &before_[k];
            }
        }
        if (nearest) Eigen::Map<Vec3>(&solver_.p[3 * c]) = frames_[c].transpose() * nearest->impulse;
    }
}

void World::Share::gather(const Numbers& p) {
    impulses.resize(3 * touches.size() + limits.size());
    for (std::size_t i = 0; i < touches.size(); ++i) std::copy_n(&p[3 * contacts[i]], 3, &impulses[3 * i]);
    for (std::size_t l = 0; l < limits.size(); ++l) impulses[3 * touches.size() + l] = p[first_limit + l];
}

void World::assemble() {
    const int n = static_cast<int>(contacts_.size());
    int limits = 0;
    for (std::size_t k = 0; k < participants.size(); ++k) {
        Share& share = shares_[k];
        share.touches.clear();
        share.contacts.clear();
        share.limits.clear();
        participants[k]->limits(share.limits);
        share.first_limit = 3 * n + limits;
        limits += static_cast<int>(share.limits.size());
    }
    frames_.resize(n);
    for (int c = 0; c < n; ++c) {
        const Contact& contact = contacts_[c];
        frames_[c] = contact_frame(contact.at.normal);
        for (int side = 0; side < 2; ++side) {
            const Carried& by = solids[side ? contact.second : contact.first];
            if (by.participant < 0) continue;
            shares_[by.participant].touches.push_back({by.frame, contact.at.point, side ? Mat3(-frames_[c]) : frames_[c]});
            shares_[by.participant].contacts.push_back(c);
        }
    }
    solver_.resize(n, limits);
    guess();
    symmetric_ = true;
    for (std::size_t k = 0; k < participants.size(); ++k) {
        Share& share = shares_[k];
        share.gather(solver_.p);
        participants[k]->lean(share.touches, share.impulses.data());
        const int touches = static_cast<int>(share.touches.size()), own = static_cast<int>(share.limits.size());
        const int rows = 3 * touches + own;
        if (!rows) continue;
        share.free.resize(rows);
        share.response.resize(static_cast<std::size_t>(rows) * rows);
        participants[k]->respond(share.touches, share.limits, share.free.data(), share.response.data());
        symmetric_ = symmetric_ && participants[k]->symmetric();
        double most = 0;
        for (int i = 0; i < rows; ++i) most = std::max(most, share.response[static_cast<std::size_t>(i) * (rows + 1)]);
        for (int c : share.contacts) solver_.loose[c] = std::max(solver_.loose[c], most);
        const Eigen::Map<const Eigen::MatrixXd> response(share.response.data(), rows, rows);
        const bool together = !own && share.contacts.back() - share.contacts.front() + 1 == touches;
        if (together) {  // neighbours in the solver as well
            const int first = 3 * share.contacts.front();
            for (int j = 0; j < rows; ++j) {
                solver_.b[first + j] += share.free[j];
                double* to = &solver_.W(first, first + j);
                const double* values = response.col(j).data();
                for (int i = 0; i < rows; ++i) to[i] += values[i];
            }
            continue;
        }
        auto row = [&](int i) { return i < touches ? 3 * share.contacts[i] : share.first_limit + (i - touches); };
        for (int j = 0; j < touches + own; ++j) {
            const int column = row(j), from = j < touches ? 3 * j : 3 * touches + (j - touches), wide = j < touches ? 3 : 1;
            for (int c = 0; c < wide; ++c) {
                solver_.b[column + c] += share.free[from + c];
                const double* values = response.col(from + c).data();
                for (int i = 0; i < touches; ++i, values += 3) {
                    double* to = &solver_.W(3 * share.contacts[i], column + c);
                    to[0] += values[0];
                    to[1] += values[1];
                    to[2] += values[2];
                }
                for (int l = 0; l < own; ++l) solver_.W(share.first_limit + l, column + c) += values[l];
            }
        }
        for (int l = 0; l < own; ++l)
            solver_.b[share.first_limit + l] += std::max(share.limits[l].gap / h, -10 * correction);
    }
    for (int c = 0; c < n; ++c) {
        const Contact& contact = contacts_[c];
        solver_.friction[c] = std::max(solids[contact.first].solid.friction, solids[contact.second].solid.friction);
        solver_.b[3 * c] += std::max(contact.at.gap / h, compliance > 0 ? contact.at.gap / h : -correction);
    }
}

// Every contact gives along its normal: gap + h v_n = -compliance f_n with f = p / h, and a trifle more, so that redundant
// contacts share in one way. No load makes that trifle more than `creep`: it is `softened_` for what p is now.
void World::soften() {
    double least = INFINITY, most = 0;
    for (int c = 0; c < static_cast<int>(contacts_.size()); ++c) {
        if (solver_.blocked(c)) continue;
        least = std::min(least, solver_.W(3 * c, 3 * c) - softened_);
        most = std::max(most, solver_.p[3 * c]);
    }
    const double fresh = std::isfinite(least) ? compliance / (h * h) + std::min(give * least, creep / most) : 0.0;
    for (int c = 0; c < static_cast<int>(contacts_.size()); ++c)
        if (!solver_.blocked(c)) solver_.W(3 * c, 3 * c) += fresh - softened_;
    softened_ = fresh;
}

// Whether an impulse makes a contact give more than it should.
bool World::too_soft() const {
    for (std::size_t c = 0; c < contacts_.size(); ++c)
        if ((softened_ - compliance / (h * h)) * solver_.p[3 * c] > 10 * creep) return true;
    return false;
}

World::Outcome World::step() {
    culprit_ = -1;
    auto give_up = [&](std::size_t begun, Outcome outcome) {
        for (std::size_t i = 0; i < begun; ++i) participants[i]->abandon();
        contacts_ = before_;
        return outcome;
    };
    for (std::size_t k = 0; k < participants.size(); ++k)
        if (!participants[k]->begin()) {
            culprit_ = static_cast<int>(k);
            return give_up(k + 1, no_solution);
        }
    detect(h);
    if (contacts_.size() > most_contacts) return give_up(participants.size(), too_many);
    assemble();
    softened_ = 0;
    soften();
    solver_.solve(symmetric_);
    for (int k = 0; k < 3 && too_soft(); ++k) {
        soften();
        solver_.solve(true);
    }
    for (double value : solver_.p)
        if (!std::isfinite(value)) return give_up(participants.size(), not_finite);
    for (std::size_t c = 0; c < contacts_.size(); ++c)
        contacts_[c].impulse = frames_[c] * Vec3(&solver_.p[3 * c]);
    for (Share& share : shares_) share.gather(solver_.p);
    for (std::size_t k = 0; k < participants.size(); ++k)
        if (!participants[k]->finish(shares_[k].touches, shares_[k].limits, shares_[k].impulses.data())) {
            culprit_ = static_cast<int>(k);
            return give_up(participants.size(), no_solution);
        }
    before_ = contacts_;
    time += h;
    return done;
}

std::vector<double> World::memory() const {
    std::vector<double> flat;
    for (const Contact& c : before_) {
        flat.push_back(c.first);
        flat.push_back(c.second);
        for (const Vec3* v : {&c.at.point, &c.at.normal, &c.impulse, &c.local}) flat.insert(flat.end(), v->data(), v->data() + 3);
        flat.push_back(c.at.gap);
    }
    return flat;
}

void World::remember(const std::vector<double>& flat) {
    before_.clear();
    for (std::size_t k = 0; k + 15 <= flat.size(); k += 15) {
        const double* at = &flat[k];
        before_.push_back({static_cast<int>(at[0]), static_cast<int>(at[1]), {Vec3(at + 2), Vec3(at + 5), at[14]}, Vec3(at + 8), Vec3(at + 11)});
    }
    contacts_ = before_;
}

}  // namespace supple
