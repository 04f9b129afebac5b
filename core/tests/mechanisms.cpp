#include "mechanisms.hpp"

namespace supple::tests {

int Builder::add(const Pose& pose, double mass, const Vec3& centre, const Mat3& inertia) {
    model.mass.push_back(mass);
    model.centre.push_back(centre);
    model.inertia.push_back(inertia);
    poses_.push_back(pose);
    model.order.push_back(static_cast<int>(poses_.size()) - 1);
    return model.order.back();
}

void Builder::add_joint(int parent, int child, int outer, const Pose& on_parent, const Pose& on_child,
                        const Axes& axes) {
    Joint joint;
    joint.parent = parent;
    joint.child = child;
    joint.outer = outer;
    joint.pose_parent = on_parent;
    joint.pose_child = on_child;
    joint.first = model.axes();
    joint.count = static_cast<int>(axes.twists.size());
    joint.blocks = axes.blocks;
    model.joints.push_back(joint);
    model.twists.insert(model.twists.end(), axes.twists.begin(), axes.twists.end());
    model.stiffness.resize(model.axes(), axes.stiffness);
    model.damping.resize(model.axes(), axes.damping);
    model.armature.resize(model.axes(), axes.armature);
    model.rest.resize(model.axes(), 0.0);
    model.curve.resize(model.axes(), -1);
}

int Builder::add_body(int parent, const Pose& on_parent, const Axes& axes, const Pose& on_body, double mass,
                      const Vec3& centre, const Mat3& inertia) {
    const int body = add(pose(parent) * on_parent * on_body.inverse(), mass, centre, inertia);
    add_joint(parent, body, body, on_parent, on_body, axes);
    return body;
}

int Builder::add_body_reversed(int child, const Pose& on_child, const Axes& axes, const Pose& on_body, double mass,
                               const Vec3& centre, const Mat3& inertia) {
    const int body = add(pose(child) * on_child * on_body.inverse(), mass, centre, inertia);
    add_joint(body, child, body, on_body, on_child, axes);
    return body;
}

void Builder::add_loop(int parent, int child, const Pose& at, const Axes& axes) {
    add_joint(parent, child, -1, at.seen_from(pose(parent)), at.seen_from(pose(child)), axes);
}

void Builder::add_spring(std::vector<int> axes, std::vector<double> coefficients, double stiffness, double damping) {
    model.springs.push_back({{std::move(axes), std::move(coefficients)}, stiffness, damping, 0.0, -1});
}

void Builder::add_row(std::vector<int> axes, std::vector<double> coefficients, double lower, double upper,
                      bool equality) {
    model.rows.push_back({{std::move(axes), std::move(coefficients)}, lower, upper, equality});
}

std::shared_ptr<const Model> Builder::build(double stiffness_scale, double length_scale) {
    model.stiffness_scale = stiffness_scale;
    model.length_scale = length_scale;
    auto result = std::make_shared<Model>(model);
    result->prepare();
    return result;
}

namespace {

Vec6 rotation_about(const Vec3& axis, const Vec3& point) { return stack(point.cross(axis), axis); }

Axes random_axes(Random& random, bool balls) {
    Axes axes;
    axes.stiffness = random.uniform(5, 30);
    axes.damping = random.uniform(0.05, 0.3);
    axes.armature = random.below(2) * random.uniform(0.001, 0.01);
    const int kind = random.below(balls ? 6 : 4);
    const Vec3 axis = random.vector().normalized();
    if (kind >= 4) {
        axes.twists = {turn_x, turn_y, turn_z};
        axes.blocks = {3};
    } else if (kind == 3) {  // a universal joint
        axes.twists = {turn_x, turn_y};
        axes.blocks = {1, 1};
    } else if (kind == 2) {  // a slide
        axes.twists = {stack(axis, Vec3::Zero())};
        axes.blocks = {1};
        axes.stiffness *= 50;
    } else {
        axes.twists = {rotation_about(axis, random.vector(0.05))};
        axes.blocks = {1};
    }
    return axes;
}

Axes bushing(Random& random) {
    Axes axes;
    for (int k = 0; k < 6; ++k) axes.twists.push_back(Vec6::Unit(k));
    axes.blocks = {1, 1, 1, 3};
    axes.stiffness = random.uniform(20, 100);
    axes.damping = random.uniform(0.1, 0.5);
    return axes;
}

}  // namespace

std::shared_ptr<const Model> random_mechanism(unsigned seed, const Kinds& kinds) {
    Random random(seed);
    Builder builder;
    const int bodies = 3 + random.below(7);
    for (int b = 0; b < bodies; ++b) {
        const int next = b == 0 ? -1 : kinds.tree ? random.below(b + 1) - 1 : b - 1;
        const Pose on_next = random.pose(0.2, 1.5), on_body = random.pose(0.2, 1.5);
        const Axes axes = random_axes(random, kinds.balls);
        const double mass = random.uniform(0.2, 2);
        const Vec3 centre = random.vector(0.1);
        const Mat3 R = so3_exp(random.vector(2));
        const Vec3 radii(random.uniform(0.05, 0.1), random.uniform(0.05, 0.1), random.uniform(0.05, 0.1));
        const Mat3 inertia = mass * (R * radii.cwiseAbs2().asDiagonal() * R.transpose());
        if (random.below(4) == 0) builder.add_body_reversed(next, on_next, axes, on_body, mass, centre, inertia);
        else builder.add_body(next, on_next, axes, on_body, mass, centre, inertia);
    }
    // To the world: a free ball where the chain of joints has enough coordinates for it not to be redundant
    if (kinds.loops) {
        const int outer = bodies - 1;
        int coordinates = 0;
        for (int b = outer; b >= 0;
             b = builder.model.joints[b].parent == b ? builder.model.joints[b].child : builder.model.joints[b].parent)
            coordinates += builder.model.joints[b].count;
        const Pose at = builder.pose(outer) * random.pose(0.2, 1.5);
        builder.add_loop(-1, outer, at, coordinates >= 5 && random.below(2) ? ball(0) : bushing(random));
    }
    std::vector<int> single;  // coordinates that are no components of rotation vectors
    for (const Joint& joint : builder.model.joints)
        if (joint.outer >= 0 && joint.blocks[0] == 1)
            for (int k = 0; k < joint.count; ++k) single.push_back(joint.first + k);
    if (kinds.couplings && single.size() > 2) {
        builder.add_spring({single[0], single.back()}, {1.0, random.uniform()}, 5, 0.05);
        if (!kinds.loops) builder.add_row({single[1], single.back()}, {1.0, random.uniform(0.5, 1)}, 0, 0, true);
    }
    if (kinds.limits)
        for (std::size_t i = 0; i < single.size(); i += 2)
            builder.add_row({single[i]}, {1.0}, -random.uniform(0.02, 0.2), random.uniform(0.02, 0.2), false);
    return builder.build(20, 0.3 * bodies);
}

std::shared_ptr<const Model> four_bar(double stiffness, double damping, bool motor) {
    Builder builder;
    const Mat3 upright = so3_exp(Vec3(M_PI / 2, 0, 0));  // the hinges' z axes are horizontal
    const Vec3 along = 0.15 * Vec3::UnitX();
    const Mat3 inertia = Vec3(1e-4, 2e-3, 2e-3).asDiagonal();
    const Axes axes = hinge(stiffness, damping);
    const auto link = [&](int parent, const Pose& on_parent) {
        return builder.add_body(parent, on_parent, axes, Pose{Mat3::Identity(), -along}, 0.5, Vec3::Zero(), inertia);
    };
    const Mat3 up = so3_exp(Vec3(0, 0, 1.2)), level = so3_exp(Vec3(0, 0, -1.2)), down = so3_exp(Vec3(0, 0, -1.7));
    const int crank = link(-1, {upright * up, Vec3::Zero()});
    const int coupler = link(crank, {level, along});
    const int rocker = link(coupler, {down, along});
    builder.add_loop(-1, rocker, builder.pose(rocker) * Pose{Mat3::Identity(), along}, hinge(0));
    if (motor) builder.add_row({0}, {1.0}, 0, 0, true);
    return builder.build(stiffness > 0 ? stiffness : 1.0, 0.5);
}

Simulation::Simulation(std::shared_ptr<const Model> model, double h, int order)
    : system(std::move(model)), stepper(system, h, order) {
    system.gravity = Vec3(0, 0, -9.81);
    stepper.start(0, std::vector<Vec6>(system.bodies(), Vec6::Zero()), std::vector<double>(system.axes(), 0.0));
}

bool Simulation::step(int steps) {
    for (int k = 0; k < steps; ++k)
        if (!stepper.step({}, nullptr)) return false;
    stepper.evaluated();
    return true;
}

}  // namespace supple::tests
