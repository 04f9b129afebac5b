// Binds kinematics and inverse kinematics.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/vector.h>

#include "engine/inverse_kinematics.hpp"
#include "engine/kinematics.hpp"
#include "python/finite_array.hpp"
#include "python/module.hpp"

namespace nb = nanobind;
using namespace supple;

namespace {

using Eigen::VectorXd;

// The model of a mechanism, which the mechanism keeps, with a state to compute in.
class Kinematics {
   public:
    Kinematics() : model_(std::make_shared<KinematicModel>()) {}

    void add_body(double mass, const Doubles& centre, const Doubles& inertia) {
        expect(centre, 3);
        expect(inertia, 9);
        model_->mass.push_back(mass);
        model_->centre.emplace_back(centre.data());
        model_->inertia.emplace_back(Eigen::Map<const Mat3>(inertia.data()));
    }
    // Joints of the tree, then those that close loops.
    void add_joint(int parent, int child, const Doubles& on_parent, const Doubles& on_child, const Doubles& twists,
                   const std::vector<int>& blocks, const Doubles& armature) {
        expect(on_parent, 16);
        expect(on_child, 16);
        const auto own = vectors<6>(twists);
        expect(armature, own.size());
        model_->joints.push_back({parent, child, pose(on_parent.data()), pose(on_child.data()), model_->size(),
                                  static_cast<int>(own.size())});
        model_->twists.insert(model_->twists.end(), own.begin(), own.end());
        model_->armature.insert(model_->armature.end(), armature.data(), armature.data() + own.size());
        for (int size : blocks) model_->block.insert(model_->block.end(), size, size);
        if (model_->block.size() != model_->twists.size())
            throw std::invalid_argument("blocks must add up to the axes");
    }
    void set_interface(const InterfaceFrame& frame) {  // of the last joint
        KinematicModel::Joint& joint = model_->joints.back();
        if (frame.coordinates() != joint.count)
            throw std::invalid_argument("as many coordinates as amplitudes are needed");
        joint.interface = static_cast<int>(model_->interfaces.size());
        model_->interfaces.push_back(frame);
    }
    void add_branch(int body, int inner, int joint, bool reversed) {
        model_->branches.push_back({body, inner, joint, reversed});
        model_->branch_of.resize(model_->bodies(), -1);
        model_->branch_of.at(body) = model_->tree_joints() - 1;
        model_->dof += model_->joints.at(joint).count;
    }
    void add_coupling(std::vector<int> places, std::vector<double> coefficients, double rest) {
        model_->couplings.push_back({std::move(places), std::move(coefficients), rest});
    }
    void finish() { state_ = std::make_unique<KinematicState>(model_); }

    const std::shared_ptr<KinematicModel>& model() const { return model_; }

    // Each writes into `to`, for coordinates q (dof,). False, and nothing is written, where `read_finite` is and where
    // a coordinate is beyond `furthest`.
    bool poses(nb::handle q, double furthest, nb::handle to) {
        if (!place(q, furthest)) return false;
        Filled rows(to, 16 * model_->bodies());
        for (int b = 0; b < model_->bodies(); ++b) write_pose(state_->pose(b), rows.data() + 16 * b);
        return true;
    }
    // X(q) (joints, 4, 4) of the tree's joints at any q (dof,).
    void displacements(const Doubles& q, nb::handle to) {
        expect(q, model_->dof);
        std::vector<Pose> across(model_->tree_joints());
        Filled rows(to, 16 * across.size());
        state_->displacements(q.data(), across.data());
        for (std::size_t j = 0; j < across.size(); ++j) write_pose(across[j], rows.data() + 16 * j);
    }
    bool jacobian(nb::handle q, double furthest, int body, const Doubles& frame, nb::handle to) {
        expect(frame, 16);
        if (body >= model_->bodies()) throw std::out_of_range("there is no such body");
        if (!place(q, furthest)) return false;
        Filled rows(to, 6 * model_->dof);
        state_->jacobian(body, pose(frame.data()), rows.data(), model_->dof);
        return true;
    }
    bool screws(nb::handle q, double furthest, nb::handle to) {
        if (!place(q, furthest)) return false;
        Filled rows(to, 6 * model_->dof);
        state_->screws(rows.data());
        return true;
    }
    bool mass_matrix(nb::handle q, double furthest, nb::handle to) {
        if (!place(q, furthest)) return false;
        Filled rows(to, model_->dof * model_->dof);
        state_->mass_matrix(rows.data());
        return true;
    }
    // Gaps (m,) and their Jacobian (m, n) at coordinates x (n,).
    std::pair<NumpyArray, NumpyArray> constraints(const Doubles& x, double length) {
        expect(x, model_->size());
        const std::size_t m = model_->constraints(), n = model_->size();
        std::vector<double> gaps(m), rows(m * n);
        state_->place(x.data());
        state_->constraints(x.data() + model_->dof, length, gaps.data(), rows.data());
        return {numpy(std::move(gaps), {m}), numpy(std::move(rows), {m, n})};
    }

   private:
    static void write_pose(const Pose& from, double* to) {  // (4, 4)
        write(from, to);
        to[12] = to[13] = to[14] = 0;
        to[15] = 1;
    }
    bool place(nb::handle given, double furthest) {
        Doubles q;
        if (!read_finite(given, model_->dof, q)) return false;
        if (std::any_of(q.data(), q.data() + q.size(), [&](double x) { return std::abs(x) > furthest; })) return false;
        state_->place(q.data());
        return true;
    }

    std::shared_ptr<KinematicModel> model_;
    std::unique_ptr<KinematicState> state_;
};

}  // namespace

void bind_kinematics(nb::module_& module) {
    nb::class_<Kinematics>(module, "Kinematics")
        .def(nb::init<>())
        .def("add_body", &Kinematics::add_body)
        .def("add_joint", &Kinematics::add_joint)
        .def("set_interface", &Kinematics::set_interface)
        .def("add_branch", &Kinematics::add_branch)
        .def("add_coupling", &Kinematics::add_coupling)
        .def("finish", &Kinematics::finish)
        .def("poses", &Kinematics::poses)
        .def("displacements", &Kinematics::displacements)
        .def("jacobian", &Kinematics::jacobian)
        .def("screws", &Kinematics::screws)
        .def("mass_matrix", &Kinematics::mass_matrix)
        .def("constraints", &Kinematics::constraints);

    nb::class_<InverseKinematics>(module, "InverseKinematics")
        .def("__init__",
             [](InverseKinematics* self, const Kinematics& of, double length, const Doubles& start,
                const Doubles& lower, const Doubles& upper, const std::vector<bool>& moving) {
                 const std::size_t n = of.model()->size();
                 for (const Doubles* each : {&start, &lower, &upper}) expect(*each, n);
                 if (moving.size() != n) throw std::invalid_argument("array of unexpected size");
                 new (self) InverseKinematics(of.model(), length);
                 self->start = vector(start);
                 self->lower = vector(lower);
                 self->upper = vector(upper);
                 self->moving.assign(moving.begin(), moving.end());
             })
        .def("add_target",
             [](InverseKinematics& self, int body, const Doubles& frame, const Doubles& target, bool turns) {
                 expect(frame, 16);
                 expect(target, 16);
                 self.targets.push_back({body, pose(frame.data()), pose(target.data()), turns});
             })
        .def("add_tendon",
             [](InverseKinematics& self, std::vector<int> places, std::vector<double> coefficients, double lower,
                double upper) { self.tendons.push_back({std::move(places), std::move(coefficients), lower, upper}); })
        .def("solve",
             [](InverseKinematics& self, const Doubles& x) {
                 expect(x, self.start.size());
                 std::pair<VectorXd, int> found;
                 {
                     nb::gil_scoped_release release;  // its state is its own
                     found = self.solve(vector(x));
                 }
                 return std::make_pair(copied(found.first), found.second);
             })
        .def("farthest",
             [](InverseKinematics& self, const Doubles& x) {
                 expect(x, self.start.size());
                 return self.farthest(vector(x));
             })
        // errors (m,) and their Jacobian (m, n)
        .def("errors", [](InverseKinematics& self, const Doubles& x) {
            expect(x, self.start.size());
            self.evaluate(vector(x));
            return std::make_pair(copied(self.errors()), copied(Eigen::MatrixXd(self.jacobian())));
        });
}
