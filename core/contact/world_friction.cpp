// Laws of a World's contacts beyond sliding friction: torsional and rolling friction, restitution, impacts.
#include <algorithm>
#include <cmath>

#include "contact/world.hpp"

namespace supple {

namespace {
constexpr int most_halvings = 12;  // of bounces that would add energy
constexpr double slow_approach = 1e-6;  // m/s: the normal velocity of resting contacts is smaller
}  // namespace

void World::find_moments() {
    with_moments_.clear();
    lengths_.clear();
    for (std::size_t c = 0; c < contacts_.size(); ++c) {
        const ContactLaw law = law_of(contacts_[c]);
        if (law.condim < 4 || contacts_[c].soft()) continue;
        const double rolling = law.condim > 4 ? law.rolling : 0.0;
        if (law.friction == 0 || (law.torsional == 0 && rolling == 0)) continue;
        with_moments_.push_back(static_cast<int>(c));
        lengths_.push_back(Vec3(law.torsional, rolling, rolling) / law.friction);
    }
}

Mat3 World::moment_axes(int moment) const { return frames_[with_moments_[moment]] * lengths_[moment].asDiagonal(); }

double World::normal_velocity_at_start(int contact) const {
    const Contact& at = contacts_[contact];
    double sum = 0;
    for (int side = 0; side < 2; ++side) {
        const MountedCollider& by = colliders[side ? at.second : at.first];
        if (by.participant < 0) continue;
        const Vec6 velocity = participants[by.participant]->start_velocity(by.frame);
        const Vec3 arm = at.at.point - participants[by.participant]->frame(by.frame).p;
        sum += (side ? -1 : 1) * at.at.normal.dot(velocity.head<3>() + velocity.tail<3>().cross(arm));
    }
    return sum;
}

// Newton's law of impact. A contact that would close in this step and that approaches with the normal velocity u <
// -bounce_speed ends the step with at least
//     v_n = min(-e u + (v_free - u), -e v_free)
// The change v_free - u by other forces is included because the position at the end of the step follows from v_n:
// without it a ball that bounces with e = 1 would gain the energy m g h |u|.
void World::find_bounces() {
    bounces_.clear();
    for (std::size_t c = 0; c < contacts_.size(); ++c) {
        const Contact& contact = contacts_[c];
        const double e = law_of(contact).restitution, free = solver_.b[3 * c], gap = contact.at.gap;
        if (e == 0 || contact.soft() || free + gap / h >= 0) continue;
        const double u = normal_velocity_at_start(static_cast<int>(c));
        if (u > -bounce_speed || u >= 0) continue;
        const double leaves = std::min(-e * u + (free - u), -e * free),
                     without = std::max(gap / h, compliance > 0 ? gap / h : -correction);
        if (leaves > -without) bounces_.push_back({static_cast<int>(c), -leaves - without});
    }
    if (!bounces_.empty()) free_rows_ = solver_.b;
}

// Kinetic energy changes by p . (v_free + v) / 2. With friction and several contacts Newton's law may make this
// positive; bounces are then halved until it is not.
void World::limit_bounces() {
    if (bounces_.empty()) return;
    for (int k = 0; k < most_halvings; ++k) {
        double work = 0, scale = 0, separating = 0;
        for (int i = 0; i < solver_.rows(); ++i) {
            double change = 0;
            for (int j = 0; j < solver_.rows(); ++j) change += solver_.W(i, j) * solver_.p[j];
            const double part = solver_.p[i] * (free_rows_[i] + 0.5 * change);
            work += part;
            scale += std::abs(part);
        }
        for (std::size_t c = 0; c < contacts_.size(); ++c)  // overlapping shapes are pushed apart
            if (contacts_[c].at.gap < 0)
                separating += solver_.p[3 * c] * std::min(correction, -contacts_[c].at.gap / h);
        if (work <= separating + 1e-9 * scale) return;
        for (Bounce& each : bounces_) {
            each.offset *= 0.5;
            solver_.b[3 * each.contact] -= each.offset;
        }
        solve();
    }
}

// Whether a contact or limit of a participant whose step is of second order is met in this step.
bool World::meets_impact() const {
    auto second = [&](int collider) {
        const int k = colliders[collider].participant;
        return k >= 0 && participants[k]->second_order();
    };
    for (std::size_t k = 0; k < participants.size(); ++k) {
        if (!participants[k]->second_order()) continue;
        for (std::size_t l = 0; l < rows_[k].limits.size(); ++l)
            if (solver_.p[rows_[k].first_limit + l] > 0) return true;
    }
    for (std::size_t c = 0; c < contacts_.size(); ++c) {
        const Contact& now = contacts_[c];
        if (!(solver_.p[3 * c] > 0) || !(second(now.first) || second(now.second))) continue;
        const bool touched = std::any_of(previous_.begin(), previous_.end(), [&](const Contact& before) {
            return before.first == now.first && before.second == now.second && !before.impulse.isZero(0);
        });
        if (normal_velocity_at_start(static_cast<int>(c)) <
            -(touched ? std::max(bounce_speed, slow_approach) : slow_approach))
            return true;
    }
    return false;
}

}  // namespace supple
