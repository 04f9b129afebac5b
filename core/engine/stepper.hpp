// Implicit time stepping: backward Euler or BDF2, Newton's method in every step. A step reads the state and the inputs
// and, if it succeeds, writes the state. The recursive passes solve it; what they do not cover, or refuse, the sparse
// solver solves from the same state.
#pragma once

#include "contact/contact.hpp"
#include "engine/articulated.hpp"
#include "engine/state.hpp"
#include "engine/system.hpp"
#include "engine/tape.hpp"

namespace supple {

class Stepper : public Participant {
   public:
    // `system` has the inputs, and is the workspace of the sparse solver.
    Stepper(System& system, double h, int order);

    State state;
    const StateLayout& layout() const { return layout_; }

    // Starts at the system's coordinates, with twists of the bodies and rates of every coordinate's increments.
    void start(double time, const std::vector<Vec6>& velocities, const std::vector<double>& rates);
    // Replaces the state by that of `State::numbers`; false if these are not of this mechanism.
    bool restore(const double* numbers, std::size_t size);
    // The state as the sparse solver has it, evaluated: reactions, gaps.
    const System& evaluated();
    // Makes what `evaluated` reads and a caller may change the state.
    void take(const History& history);

    // One step of h. `targets` are the values of the equality rows `driven` at its end. A step that does not converge
    // is repeated in halves. False if it fails at every size; the state is then that before the step.
    bool step(const std::vector<int>& driven, const double* targets);

    int order() const { return order_; }
    void use_passes(bool use) { wanted_ = use; }
    const char* solver() const { return passes_ && wanted_ ? "passes" : "sparse"; }
    const char* uncovered() const { return uncovered_; }  // why there are no passes

    // Why the last failed step did not converge: the coordinate that Newton's method moved most or, if coordinates
    // converged, the loop joint or row with the largest error. -1: none.
    struct ConvergenceFailure {
        int axis = -1, joint = -1, row = -1;
        double size = 0;  // rad or m; of a loop, lengths over the length scale
        std::vector<double> q;  // coordinates after the last part of the step that converged
    };
    ConvergenceFailure convergence_failure;

    std::shared_ptr<Tape> tape;  // records accepted steps; may be null
    void start_tape();
    const Articulated* passes() const { return passes_.get(); }  // null: they do not cover the mechanism

    // Limits are stiff springs in parts of a step that have no solution with exact ones, from this number of halvings
    // on.
    int soften_limits_at = 4;
    long long softened = 0;  // number of such parts
    History history;  // of the sparse solver
    long long iterations = 0, factorisations = 0, steps_by_passes = 0;
    long long all_iterations() const { return iterations + (passes_ ? passes_->iterations : 0); }
    long long all_factorisations() const { return factorisations + (passes_ ? passes_->factorisations : 0); }

    double kinetic_energy() const { return layout_.kinetic_energy(system_.model(), state); }
    double strain_energy() const { return system_.strain_energy(coordinates()); }
    double gravity_energy() const;

    // in a World: every body is a frame. A step in which a contact or limit is met is backward Euler. Limits are rows
    // of the contact problem, because contact forces may press a coordinate onto a limit or off it. In the step without
    // contact the system's own rows enforce them.
    int frames() const override { return system_.bodies(); }
    Pose frame(int i) const override { return layout_.pose(state, i); }
    Vec6 free_velocity(int i) const override;
    Vec6 start_velocity(int i) const override;
    bool second_order() const override { return contact_order_ == 2; }
    void expect_impact(bool expected) override { impact_ = expected; }
    bool begin() override;
    void limits(std::vector<Limit>& out) const override;
    void respond(const std::vector<Touch>& touches, const std::vector<Limit>& limits, double* free,
                 double* response) override;
    bool finish(const std::vector<Touch>& touches, const std::vector<Limit>& limits, const double* impulses) override;
    void abandon() override;
    bool has_any_step() const override { return true; }
    void set_step(double h) override;
    double energy() const override { return kinetic_energy() + strain_energy() + gravity_energy(); }
    // Targets (n, driven rows) of the next n steps in a World.
    void schedule(const std::vector<int>& driven, std::vector<double> targets);

   private:
    std::vector<double> coordinates() const;
    bool passes_ready(bool new_targets);  // false: the sparse solver must solve the step
    void passes_refused();
    void keep_loads();
    void finish_step(double h, int order);  // loads and the record of a step that succeeded

    // Sparse solver: `load` copies the state to the system, `solve` finds the end of a step from there, `accept` makes
    // it the state.
    void load();
    bool solve(double h, int order);
    void accept(double h);
    bool advance(double h, int order);
    bool advance_with_stops(double h);  // backward Euler with limits as stiff springs
    bool solve_with_stops(double h);
    bool divide(double h, const std::vector<int>& driven, const double* from, const double* to, int depth);
    double turned() const;  // largest rotation of a coordinate in this step, rad; infinite if a body turned too far
    void find_convergence_failure(double motion);

    void set_targets(const std::vector<int>& driven, const double* values);
    void set_activations();  // those of the state
    void advance_activations();  // to the end of the step
    bool begin_sparse();

    System& system_;
    double h_;
    int order_;
    std::unique_ptr<Articulated> passes_;  // null if they do not cover the mechanism
    const char* uncovered_ = "";
    StateLayout layout_;
    bool wanted_ = true;
    // Counts of the inputs that the passes have, and whose loads the state has
    long long refreshed_at_ = -1, kept_at_ = -1;
    double elapsed_ = 0;  // fraction of the present time step that is done (if it is divided)

    // sparse solver, in a step
    std::vector<double> x_, right_;
    Configuration base_, loaded_;
    std::vector<int> assumed_;  // rows that are active in the present iteration
    double shift_ = 0;  // stiffness that the tangent adds to all coordinates, over the mechanism's
    // A limit was met or left in the last step; the old tangent can be reused
    bool limit_changed_ = false, shrinking_ = true;

    // in a World
    std::vector<int> driven_;
    std::vector<double> scheduled_;
    std::size_t next_ = 0;  // of the scheduled steps
    bool impact_ = false;  // the step must be backward Euler
    int contact_order_ = 1;  // of the step
    bool by_passes_ = false;  // the passes solve the step that has begun
    struct {
        State state;
        std::vector<double> targets;
        std::size_t next = 0;
        long long softened = 0;
    } before_;  // the step
    Configuration predicted_;  // at which the step is linearised
    std::vector<double> free_;  // and its solution without contact
};

}  // namespace supple
