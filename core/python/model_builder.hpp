// The Python class that describes a Model, part by part. An engine gets a prepared copy, which does not change.
#pragma once

#include <memory>
#include <stdexcept>

#include "engine/model.hpp"
#include "python/arrays.hpp"

namespace supple {

class ModelBuilder {
   public:
    Model model;

    void add_body(double mass, const Doubles& centre, const Doubles& inertia) {
        expect(centre, 3);
        expect(inertia, 9);
        model.mass.push_back(mass);
        model.centre.emplace_back(centre.data());
        model.inertia.emplace_back(Eigen::Map<const Mat3>(inertia.data()));
    }

    void add_curve(const Doubles& start, const Doubles& coefficients) {
        expect(coefficients, 4 * start.size());
        Curve curve{doubles(start), {}};
        for (std::size_t i = 0; i < start.size(); ++i) {
            const double* c = coefficients.data() + 4 * i;
            curve.coefficients.push_back({c[0], c[1], c[2], c[3]});
        }
        model.curves.push_back(std::move(curve));
    }

    void add_joint(int parent, int child, int outer, const Doubles& pose_parent, const Doubles& pose_child,
                   const Doubles& twists, const std::vector<int>& blocks, const Doubles& stiffness,
                   const Doubles& damping, const Doubles& armature, const Doubles& rest,
                   const std::vector<int>& curves) {
        expect(pose_parent, 16);
        expect(pose_child, 16);
        const std::size_t count = curves.size();
        expect(twists, 6 * count);
        for (const Doubles* each : {&stiffness, &damping, &armature, &rest}) expect(*each, count);
        if (count > 64) throw std::invalid_argument("a joint has at most 64 axes");
        Joint joint;
        joint.parent = parent;
        joint.child = child;
        joint.outer = outer;
        joint.pose_parent = pose(pose_parent.data());
        joint.pose_child = pose(pose_child.data());
        joint.first = model.axes();
        joint.count = static_cast<int>(count);
        joint.blocks = blocks;
        model.joints.push_back(joint);
        auto append = [](auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); };
        append(model.twists, vectors<6>(twists));
        append(model.stiffness, doubles(stiffness));
        append(model.damping, doubles(damping));
        append(model.armature, doubles(armature));
        append(model.rest, doubles(rest));
        append(model.curve, curves);
    }

    // X(q) of the last joint is the frame of an interface of a flexible body, q the body's amplitudes.
    void set_interface(const InterfaceFrame& frame) {
        Joint& joint = model.joints.back();
        if (frame.coordinates() != joint.count)
            throw std::invalid_argument("as many coordinates as amplitudes are needed");
        joint.interface = static_cast<int>(model.interfaces.size());
        model.interfaces.push_back(frame);
    }

    // `axis`: first of the amplitudes among the coordinates. first_moment: (r + 1, 3), gram: (r + 1, r + 1, 3, 3).
    void add_flexible(int body, int axis, double mass, const Doubles& first_moment, const Doubles& gram,
                      const ReducedForce& force, double alpha, double beta) {
        const std::size_t n = force.modes() + 1;
        expect(first_moment, 3 * n);
        expect(gram, 9 * n * n);
        std::vector<Mat3> blocks;
        for (std::size_t i = 0; i < n * n; ++i)
            blocks.push_back(Eigen::Map<const Eigen::Matrix<double, 3, 3, Eigen::RowMajor>>(gram.data() + 9 * i));
        model.flexible.emplace_back(body, axis, mass, vectors<3>(first_moment), std::move(blocks), force.clone(), alpha,
                                    beta);
    }

    void add_spring(const std::vector<int>& axes, const std::vector<double>& coefficients, double stiffness,
                    double damping, double rest, int curve) {
        model.springs.push_back({{axes, coefficients}, stiffness, damping, rest, curve});
    }

    // `law`: gain, bias and share, three numbers each; range of the force, then of the activation.
    void add_actuator(int axis, int spring, double gear, const Doubles& law, const Doubles& ranges, int dynamics,
                      double lag, double control, double activation) {
        expect(law, 9);
        expect(ranges, 4);
        Actuator actuator;
        actuator.axis = axis;
        actuator.spring = spring;
        actuator.gear = gear;
        std::copy_n(law.data(), 3, actuator.gain);
        std::copy_n(law.data() + 3, 3, actuator.bias);
        actuator.start.contained = law.data()[6];
        std::copy_n(law.data() + 7, 2, actuator.share);
        actuator.start.lower = ranges.data()[0];
        actuator.start.upper = ranges.data()[1];
        actuator.least = ranges.data()[2];
        actuator.most = ranges.data()[3];
        actuator.dynamics = static_cast<Actuator::Dynamics>(dynamics);
        actuator.lag = lag;
        actuator.start.control = control;
        actuator.start.activation = activation;
        model.actuators.push_back(actuator);
    }

    void add_row(const std::vector<int>& axes, const std::vector<double>& coefficients, double lower, double upper,
                 bool equality) {
        model.rows.push_back({{axes, coefficients}, lower, upper, equality});
    }

    // `order`: bodies, each after its parent in the spanning tree.
    void set_tree(const std::vector<int>& order, double stiffness_scale, double length_scale) {
        model.order = order;
        model.stiffness_scale = stiffness_scale;
        model.length_scale = length_scale;
    }

    // Stiffness of the joints' springs (axes,), and the scale of stiffness that follows from them.
    void set_stiffness(const Doubles& stiffness, double scale) {
        expect(stiffness, model.axes());
        model.stiffness = doubles(stiffness);
        model.stiffness_scale = scale;
    }
    void set_spring_stiffness(int spring, double stiffness) { model.springs.at(spring).stiffness = stiffness; }
    void set_inertia(int body, double mass, const Doubles& centre, const Doubles& inertia) {
        expect(centre, 3);
        expect(inertia, 9);
        model.mass.at(body) = mass;
        model.centre[body] = Vec3(centre.data());
        model.inertia[body] = Eigen::Map<const Mat3>(inertia.data());
    }

    std::shared_ptr<const Model> prepared() const {
        auto result = std::make_shared<Model>(model);
        result->prepare();
        return result;
    }
};

}  // namespace supple
