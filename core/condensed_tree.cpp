// The state of a tree, and the frames, momenta, wrenches and torques that the passes need.
#include "condensed_tree.hpp"

#include <algorithm>
#include <cmath>

#include "arrays.hpp"

namespace supple {

TreeState::TreeState(const System& system) : system_(system) {
    std::vector<int> holder(system.bodies(), -1);
    for (std::size_t j = 0; j < system.joints.size(); ++j) holder[system.joints[j].outer] = static_cast<int>(j);
    bodies_.resize(system.bodies());
    for (int b : system.order) {
        const Joint& joint = system.joints[holder[b]];
        const bool backwards = joint.child != b;
        const int inner = backwards ? joint.child : joint.parent;
        Tree::FixedFrame at = inner < 0 ? Tree::FixedFrame{} : bodies_[inner];
        at.fixed = at.fixed * (backwards ? joint.pose_child : joint.pose_parent);
        for (int k = 0; k < joint.count; ++k) {
            const int axis = joint.first + (backwards ? joint.count - 1 - k : k);
            Tree::AxisTransform step;
            step.before = at.step;
            step.axis = n_;
            step.fixed = at.fixed;
            step.twist[0] = backwards ? Vec6(-system.twists[axis]) : system.twists[axis];
            before_.push_back(at.step);
            axis_.push_back(axis);
            at = tree_.add(step);
            ++n_;
        }
        bodies_[b] = {at.step, at.fixed * (backwards ? joint.pose_parent : joint.pose_child).inverse()};
    }
    for (const Tree::FixedFrame& body : bodies_) shown_.push_back(Tree::rows(body.fixed.R, body.fixed.p));
    tree_.prepare();
    step_of_.resize(n_);
    for (int i = 0; i < n_; ++i) step_of_[axis_[i]] = i;
    own_.resize(n_, own_count);
    screws_.resize(n_, 6);
    for (Columns* each : {&frame_, &past_frame_}) each->resize(n_, frame_count);
    for (Columns* each : {&now_, &past_, &old_}) each->resize(n_, at_count);
    nodes_.assign(own_.stride(), Node{});
    terms_.resize(own_.stride());
    carried_.resize(n_);
    for (int i = 0; i < n_; ++i) {
        own_[own_slide][i] = tree_.steps[i].twist[0][2];
        own_[own_turn][i] = tree_.steps[i].twist[0][5];
    }
    for (int b = 0; b < system.bodies(); ++b) {
        const Tree::FixedFrame& at = bodies_[b];
        if (at.step >= 0)
            add_inertia(at.step, system.mass[b], at.fixed.act(system.centre[b]),
                        at.fixed.R * system.inertia[b] * at.fixed.R.transpose());
    }
    for (auto* each : {&q_, &q_past_, &q_old_, &rate_, &rate_old_, &spin_, &spin_past_, &spin_old_, &slope_,
                       &resists_})
        each->assign(n_, 0.0);
    for (auto* each : {&spring_, &drag_, &answer_}) each->assign(own_.stride(), 0.0);
    for (int i = 0; i < n_; ++i)  // motion of a slide is divided by the radius
        scale_.push_back(own_[own_turn][i] == 0 ? 1 / system.length_scale : 1.0);
    heavy_ = !system.gravity.isZero(0);
    for (int axis : axis_) {
        stiffness_.push_back(system.stiffness[axis]);
        damping_.push_back(system.damping[axis]);
        armature_.push_back(system.armature[axis]);
        curved_ = curved_ || system.curve[axis] >= 0;
    }
}

// Adds a body that is fixed to others: sums masses, and inertias about the common centre of mass.
void TreeState::add_inertia(int i, double mass, const Vec3& centre, const Mat3& inertia) {
    const double had = own_[own_mass][i], sum = had + mass;
    const Vec3 old = own_.vector(own_centre, i), middle = sum > 0 ? Vec3((had * old + mass * centre) / sum) : centre;
    const Mat3 a = skew(old - middle), b = skew(centre - middle);
    const Mat3 added = inertia - had * a * a - mass * b * b;
    for (int k = 0; k < 3; ++k) own_[own_centre + k][i] = middle[k];
    own_[own_mass][i] = sum;
    constexpr int at[6][2] = {{0, 0}, {1, 1}, {2, 2}, {0, 1}, {0, 2}, {1, 2}};
    for (int k = 0; k < 6; ++k) own_[own_inertia + k][i] += added(at[k][0], at[k][1]);
}

void TreeState::start() {
    kind_.assign(n_, 0);
    joined_.clear();
    for (int i = 0; i < n_; ++i) {
        if (i + 1 == n_ || before_[i + 1] != i) kind_[i] |= ends;
        if (before_[i] < 0) kind_[i] |= roots;
        else if (before_[i] != i - 1) kind_[i] |= branches, kind_[before_[i]] |= joins;
    }
    for (std::size_t e = 0; e < tips.size(); ++e) kind_[end(static_cast<int>(e)).step] |= joins;
    plain_.assign(own_.stride() / width, !heavy_);
    for (int i = 0; i < n_; ++i) {
        if (kind_[i] & joins) joined_.push_back(i);
        if (kind_[i] & (joins | ends)) plain_[i / width] = false;
    }
    for (int i = 0; i < n_; ++i) q_[i] = system_.state.q[axis_[i]];
    std::fill(rate_.begin(), rate_.end(), 0.0);
    std::fill(past_.values.begin(), past_.values.end(), 0.0);
    restart();
}

void TreeState::restart() {
    update_frames<true>(nullptr);
    for (int i = 0; i < n_; ++i) {
        const Mat3 R = tree_.frame({i, Pose{}}).R;
        const Vec3 at = centre(i), diagonal = own_.vector(own_inertia, i), off = own_.vector(own_inertia + 3, i);
        Mat3 I;
        I << diagonal[0], off[0], off[1], off[0], diagonal[1], off[2], off[1], off[2], diagonal[2];
        const Vec3 turning = R * (I * past_.vector(at_spin, i));  // angular momentum of the same angular velocity at the new pose
        for (int k = 0; k < 3; ++k) {
            past_[at_turn + k][i] = 0;
            past_[at_centre + k][i] = at[k];
            past_[at_angular + k][i] = turning[k];
        }
        spin_[i] = armature_[i] * rate_[i];
    }
    old_ = past_;
    past_frame_ = frame_;
    q_past_ = q_old_ = q_;
    rate_old_ = rate_;
    spin_past_ = spin_old_ = spin_;
}

// Velocities and rates of momentum of eight links with rotations R and centres of mass, M = R I, as in the engine
// (System::apply).
SUPPLE_INLINE TreeState::Motion TreeState::motion(const Step& step, int i, const Turn& R, const Three& centre,
                                                           const Eight& mass, const Turn& M) const {
    const double over = 1 / step.h, c0 = step.c0, c2 = step.c2;
    const Turn Rn = past_frame_.turn(i);
    const Eight near = trace(Rn, R);
    Three x = short_log(Rn, R);
    const Three turned = past_.three(at_turn, i);
    Three spin = c0 * x;
    if (c2 != 0) {  // Jr(x) x_0 = x_0 - b x x x_0 + c x x (x x x_0)
        const Eight t = dot(x, x);
        const Eight b = 0.5 + t * (-1.0 / 24 + t * (1.0 / 720 + t * (-1.0 / 40320 + t * (1.0 / 3628800))));
        const Eight c = 1.0 / 6 + t * (-1.0 / 120 + t * (1.0 / 5040 + t * (-1.0 / 362880 + t / 39916800.0)));
        const Three once = cross(x, turned), twice = cross(x, once);
        spin = spin + (-c2) * (turned + (-b) * once + c * twice);
    }
    spin = over * spin;
    if (!(-largest(-near) > 2.98))  // large rotations: one by one
        for (int l = 0; l < width && i + l < n_; ++l) {
            if (near[l] > 2.98) continue;
            Mat3 now, then;
            now << get(R.x, l), get(R.y, l), get(R.z, l);
            then << get(Rn.x, l), get(Rn.y, l), get(Rn.z, l);
            const Vec3 turn = so3_log(then.transpose() * now);
            put(x, l, turn);
            put(spin, l, Vec3(over * (c0 * turn - c2 * (so3_right_jacobian(turn) * past_.vector(at_turn, i + l)))));
        }
    const Three flight = rate(step, centre, at_centre, i), angular = M * spin;
    return {x, flight, spin, angular, mass * rate(step, flight, at_flight, i), rate(step, angular, at_angular, i)};
}

// Updates frames, screws, the wrenches on links and, with a step, their motion.
template <bool nodes>
void TreeState::update_frames(const Step* step) {
    tree_.move(q_.data());
    const bool held = std::any_of(tips.begin(), tips.end(), [](const EndEffector& tip) { return tip.held; });
    const Three gravity = every(system_.gravity);
    for (int i = 0; i < n_; i += width) {
        Eight front[8], rear[8];  // eight frames, transposed to lanes
        const double* frames = reinterpret_cast<const double*>(tree_.frames() + i);
        for (int l = 0; l < width; ++l) {
            front[l] = load(frames + 16 * l);
            rear[l] = load(frames + 16 * l + 8);
        }
        transpose(front);
        transpose(rear);
        const Turn R = {three(front), three(front + 4), three(rear)};
        const Three place = three(rear + 4);
        const bool last = !nodes || !step;  // intermediate states are not stored
        if (last) {
            frame_.set(frame_turn, i, R.x);
            frame_.set(frame_turn + 3, i, R.y);
            frame_.set(frame_turn + 6, i, R.z);
        }
        const Three about = own_.at(own_turn, i) * R.z;
        const Three along = own_.at(own_slide, i) * R.z + cross(place, about);
        const Three centre = R * own_.three(own_centre, i) + place;
        const Eight mass = own_.at(own_mass, i);
        const Three diagonal = own_.three(own_inertia, i), off = own_.three(own_inertia + 3, i);
        const Turn M = R * Turn{{diagonal.x, off.x, off.y}, {off.x, diagonal.y, off.z}, {off.y, off.z, diagonal.z}};
        const Three weight = mass * gravity;
        Three force = weight;
        Three torque = {};
        if (step) {
            const Motion moves = motion(*step, i, R, centre, mass, M);
            force = force - moves.force;
            torque = moves.torque;
            if (last || held) {
                now_.set(at_flight, i, moves.flight);
                now_.set(at_spin, i, moves.spin);
            }
            if (last) {
                now_.set(at_turn, i, moves.turn);
                now_.set(at_centre, i, centre);
                now_.set(at_angular, i, moves.angular);
            }
        }
        if (!nodes) continue;
        const Three moment = cross(centre, force) - torque, p = force - weight;
        screws_.set(0, i, along);
        screws_.set(3, i, about);
        Eight screw[8] = {along.x, along.y, along.z, about.x, about.y, about.z};
        Eight moving[8] = {force.x, force.y, force.z, moment.x, moment.y, moment.z};
        const Three first = mass * centre;
        Eight weighs[8] = {mass, first.x, first.y, first.z, p.x, p.y, p.z};
        spread(screw, [&](int l) { return terms_[i + l].screw; });
        spread(moving, [&](int l) { return nodes_[i + l].moving; });
        spread(weighs, [&](int l) { return nodes_[i + l].weighs; });
        if (heavy_) {
            const Three turning = cross(centre, weight);
            Eight still[8] = {weight.x, weight.y, weight.z, turning.x, turning.y, turning.z};
            spread(still, [&](int l) { return nodes_[i + l].still; });
        }
        if (!step) continue;
        // R I R^T + m (c.c - c c^T), c p^T - p.c
        const Turn J = M * transposed(R);
        const Eight far = dot(first, centre), pc = dot(p, centre);
        Eight second[8] = {J.x.x + far - first.x * centre.x, J.y.y + far - first.y * centre.y, J.z.z + far - first.z * centre.z,
                           J.x.y - first.x * centre.y,       J.x.z - first.x * centre.z,       J.y.z - first.y * centre.z,
                           centre.x * p.x - pc,              centre.x * p.y};
        Eight third[8] = {centre.x * p.z,      centre.y * p.x, centre.y * p.y - pc, centre.y * p.z,
                          centre.z * p.x,      centre.z * p.y, centre.z * p.z - pc};
        spread(second, [&](int l) { return nodes_[i + l].weighs + 8; });
        spread(third, [&](int l) { return nodes_[i + l].weighs + 16; });
    }
}

static void add_wrench(double* to, const Pose& at, const Vec6& own) {  // from own axes to world axes at the world's origin
    const Vec3 f = at.R * own.head<3>(), m = at.R * own.tail<3>() + at.p.cross(f);
    for (int k = 0; k < 3; ++k) {
        to[k] += f[k];
        to[3 + k] += m[k];
    }
}

// Adds the wrenches on the tips: lambda for balance, the applied ones for motion.
void TreeState::act(const Step* step) {
    for (int i : joined_)
        if (!heavy_) std::fill_n(nodes_[i].still, 8, 0.0);
    for (std::size_t e = 0; e < tips.size(); ++e) {
        const EndEffector& tip = tips[e];
        const Tree::FixedFrame shown = end(static_cast<int>(e));
        const Pose pose = tree_.frame(shown);
        Node& node = nodes_[shown.step];
        add_wrench(node.still, pose, lambda.segment<6>(6 * e));
        if (!step) continue;
        const Pose at = tip.world ? Pose{Mat3::Identity(), pose.p} : pose;
        add_wrench(node.moving, at, tip.wrench);
        for (const auto& [point, force] : tip.contacts)
            add_wrench(node.moving, {Mat3::Identity(), pose.act(point)}, stack(force, Vec3::Zero()));
        if (!tip.held) continue;
        const Vec3 point = pose.act(tip.point);
        const Vec3 spin = tree_.frame({shown.step, Pose{}}).R * now_.vector(at_spin, shown.step);
        const Vec3 speed = now_.vector(at_flight, shown.step) + spin.cross(point - centre(shown.step));
        const Vec3 force = tip.stiffness * (tip.target - point) - tip.damping * speed;
        add_wrench(node.moving, {Mat3::Identity(), point}, stack(force, Vec3::Zero()));
    }
}

// Updates the torques of springs, dampers and armatures.
void TreeState::update_torques(const Step* step) {
    auto all = [&](Numbers& v) { return Eigen::Map<Eigen::ArrayXd>(v.data(), n_); };
    for (int i = 0; i < n_; ++i) spring_[i] = system_.rest[axis_[i]];
    all(slope_) = all(stiffness_);
    all(spring_) = all(stiffness_) * (all(q_) - all(spring_));
    for (int i = 0; curved_ && i < n_; ++i) {
        const int axis = axis_[i];
        const double deflection = q_[i] - system_.rest[axis];
        if (system_.curve[axis] >= 0) {
            double torque, slope, energy;
            system_.curves[system_.curve[axis]].evaluate(deflection, torque, slope, energy);
            spring_[i] += torque;
            slope_[i] += slope;
        }
    }
    for (const Row& row : system_.rows) {
        double torque, slope, energy;
        const int i = step_of_[row.of.axes[0]];
        row.push(q_[i], torque, slope, energy);
        spring_[i] += torque;
        slope_[i] += slope;
    }
    if (!step) return;
    const double c0 = step->c0, c1 = step->c1, c2 = step->c2, over = 1 / step->h, c = c0 / step->h;
    all(rate_) = over * (c0 * all(q_) + c1 * all(q_past_) + c2 * all(q_old_));
    all(spin_) = all(armature_) * all(rate_);
    all(drag_) = all(damping_) * all(rate_) + over * (c0 * all(spin_) + c1 * all(spin_past_) + c2 * all(spin_old_));
    all(resists_) = c * (all(damping_) + c * all(armature_));
}

template <int E>
Passes<E>::Passes(const System& system) : TreeState(system) {
    answers_.resize(own_.stride());
    inward_.resize(n_);
    outward_.resize(n_);
    first_.resize(n_);
    outward_first_.resize(n_);
}

template <int E>
bool Passes<E>::respond(Tangent tangent, const Step* step, Response& response) {
    update_frames<true>(step);
    act(step);
    update_torques(step);
    step && tangent != Tangent::kept ? sum_carried<true>(step) : sum_carried<false>(step);
    if (tangent == Tangent::first) {
        has_first_ = false;
    } else if (!has_first_) {
        for (int i = 0; i < n_; ++i) std::copy_n(answers_[i].turns, K, first_[i].of);
        has_first_ = true;
    }
    if (tangent == Tangent::kept) {
        pass_back_again(response);
        pass_out_again(step, response);
        return response.drift.allFinite() && response.force.allFinite();
    }
    double boost = 1;  // stiffer anchors if that makes the tangent definite; otherwise it stays indefinite
    if (downhill || !pass_back(boost, Indefinite::reject)) {
        boost = anchor_boost;
        if (downhill || !pass_back(boost, Indefinite::reject))
            pass_back(boost, downhill ? Indefinite::flip : Indefinite::accept);
    }
    response.negative = negative_;
    pass_out(step, tangent, response);
    response.anchor.setZero();
    for (int e = 0; e < E; ++e) {  // twists of the tips per wrench, and of the correction to balance
        auto own = response.anchor.template block<6, 6>(6 * e, 6 * e);
        own = turning(lambda.template segment<6>(6 * e));
        own.diagonal() += boost * anchor.template segment<6>(6 * e);
        const Tree::FixedFrame shown = end(e);
        const Mat6 Ad = adjoint(tree_.frame(shown).inverse());
        const Twists now = Ad * twists(outward_[shown.step]);
        response.compliance.template middleRows<6>(6 * e) = now.template leftCols<rows>();
        response.drift.template segment<6>(6 * e) = now.col(balance);
        if (tangent == Tangent::again)  // the first tangent's basis at the present pose
            response.left.template middleCols<6>(6 * e) =
                (Ad * twists(outward_first_[shown.step])).template leftCols<rows>().transpose();
    }
    if (tangent == Tangent::first) response.left = response.compliance.transpose();
    return response.drift.allFinite() && response.compliance.allFinite();
}

template <int E>
double Passes<E>::move(const Vector& mu, double largest, double& alpha) {
    Eight by[K] = {};
    for (int r = 0; r < rows; ++r) by[r / 8][r % 8] = mu[r];
    by[K - 1][6] = 1;
    for (int block = 0; block < own_.stride(); block += width) {
        Eight turns[8];
        for (int l = 0; l < width; ++l) {
            turns[l] = by[0] * answers_[block + l].turns[0];
            for (int k = 1; k < K; ++k) turns[l] += by[k] * answers_[block + l].turns[k];
        }
        transpose(turns);
        store(&answer_[block], ((turns[0] + turns[1]) + (turns[2] + turns[3])) + ((turns[4] + turns[5]) + (turns[6] + turns[7])));
    }
    const auto answer = Eigen::Map<const Eigen::ArrayXd>(answer_.data(), n_);
    if (!std::isfinite(answer.sum())) return INFINITY;  // maxCoeff does not report NaN
    const double size = (Eigen::Map<const Eigen::ArrayXd>(scale_.data(), n_) * answer.abs()).maxCoeff();
    alpha = std::min(1.0, largest / size);
    move_on(alpha);
    for (std::size_t r = 0; r < system_.rows.size() && step_in_torque; ++r) {
        const int i = step_of_[system_.rows[r].of.axes[0]];
        q_[i] = system_.rows[r].pushed_to(q_[i] - alpha * answer_[i], q_[i]);
    }
    return size;
}

double TreeState::energy() const {
    double sum = 0, torque, slope, energy, none;
    for (int i = 0; i < n_; ++i) {
        const double deflection = q_[i] - system_.rest[axis_[i]];
        sum += 0.5 * stiffness_[i] * deflection * deflection;
        if (system_.curve[axis_[i]] < 0) continue;
        const Curve& curve = system_.curves[system_.curve[axis_[i]]];
        curve.evaluate(deflection, torque, slope, energy);
        curve.evaluate(0, torque, slope, none);
        sum += energy - none;
    }
    for (const Row& row : system_.rows) {
        row.push(q_[step_of_[row.of.axes[0]]], torque, slope, energy);
        sum += energy;
    }
    for (int i = 0; heavy_ && i < n_; ++i) sum -= own_[own_mass][i] * system_.gravity.dot(centre(i));
    return sum;
}

double TreeState::kinetic() const {
    double sum = 0;
    for (int i = 0; i < n_; ++i) {
        Mat3 R;
        for (int c = 0; c < 3; ++c) R.col(c) = past_frame_.vector(3 * c, i);
        sum += 0.5 * (own_[own_mass][i] * past_.vector(at_flight, i).squaredNorm() +
                      past_.vector(at_angular, i).dot(R * past_.vector(at_spin, i)) + spin_past_[i] * rate_[i]);
    }
    return sum;
}

void TreeState::predict(double h, double trend) {
    for (int i = 0; i < n_; ++i) q_[i] += h * (rate_[i] + trend * (rate_[i] - rate_old_[i]));
}

void TreeState::finish(const Step* step) {
    if (step) {
        update_frames<false>(step);
        update_torques(step);
    } else {
        update_frames<true>(step);
    }
}

void TreeState::accept(double) {
    std::swap(old_, past_);
    std::swap(past_, now_);
    std::swap(past_frame_, frame_);
    q_old_.swap(q_past_);
    q_past_ = q_;
    spin_old_.swap(spin_past_);
    spin_past_ = spin_;
    rate_old_ = kept_rate_;
}

void TreeState::keep() {
    kept_q_ = q_;
    kept_rate_ = rate_;
    kept_lambda_ = lambda;
}

void TreeState::back() {
    q_ = kept_q_;
    rate_ = kept_rate_;
    lambda = kept_lambda_;
}

void TreeState::write_poses(double* out) const {
    for (std::size_t b = 0; b < bodies_.size(); ++b) {
        if (bodies_[b].step < 0)
            write(bodies_[b].fixed, out + 16 * b);
        else
            tree_.write(bodies_[b].step, shown_[b], out + 16 * b);
    }
}

void TreeState::tell(System& system) const {
    for (int i = 0; i < n_; ++i) {
        system.state.q[axis_[i]] = q_[i];
        system.rate[axis_[i]] = rate_[i];
    }
    for (int b = 0; b < system.bodies(); ++b) {
        const int i = bodies_[b].step;
        if (i < 0) continue;
        const Pose step = tree_.frame({i, Pose{}}), pose = tree_.frame(bodies_[b]);
        const Vec3 spin = step.R * past_.vector(at_spin, i);
        const Vec3 speed = past_.vector(at_flight, i) + spin.cross(pose.p - past_.vector(at_centre, i));
        system.velocity[b] = stack(pose.R.transpose() * speed, pose.R.transpose() * spin);
    }
}

std::vector<double> TreeState::flat() const {
    std::vector<double> all;
    for (const auto* each : {&q_, &q_old_, &rate_, &rate_old_, &spin_past_, &spin_old_, &past_.values, &old_.values,
                             &past_frame_.values})
        all.insert(all.end(), each->begin(), each->end());
    return all;
}

void TreeState::set_flat(const double* values) {
    for (auto* each : {&q_, &q_old_, &rate_, &rate_old_, &spin_past_, &spin_old_, &past_.values, &old_.values,
                       &past_frame_.values}) {
        std::copy(values, values + each->size(), each->begin());
        values += each->size();
    }
    q_past_ = q_;
    tree_.move(q_.data());
}

std::unique_ptr<TreeInterior> tree_interior(const System& system, int tips) {
    if (!system.springs.empty()) return nullptr;
    for (const Row& row : system.rows)
        if (row.stop == 0 || row.of.axes.size() != 1 || row.of.coefficients[0] != 1) return nullptr;
    for (const Joint& joint : system.joints) {
        if (joint.outer < 0) return nullptr;
        for (int size : joint.blocks)
            if (size != 1) return nullptr;
    }
    switch (tips) {
        case 1: return std::make_unique<Passes<1>>(system);
        case 2: return std::make_unique<Passes<2>>(system);
        case 3: return std::make_unique<Passes<3>>(system);
        case 4: return std::make_unique<Passes<4>>(system);
        case 5: return std::make_unique<Passes<5>>(system);
        default: return nullptr;
    }
}

}  // namespace supple
