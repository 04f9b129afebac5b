// Implicit time stepping of a System: backward Euler or BDF2, Newton's method in every step.
#pragma once

#include "contact/contact.hpp"
#include "engine/articulated.hpp"
#include "engine/system.hpp"
#include "engine/tape.hpp"

namespace supple {

class Stepper : public Participant {
   public:
    Stepper(System& system, double h, int order);

    // Starts at the system's coordinates, with twists of the bodies and rates of every coordinate's increments.
    void start(const std::vector<Vec6>& velocities, const std::vector<double>& rates);

    // One step of h. `targets` are the values of the equality rows `driven` at its end. A step that does not converge is
    // repeated in halves. False if it fails at every size; the state is then that before the step.
    bool step(const std::vector<int>& driven, const double* targets);

    void accept(double h);  // makes the state of the system the end of a step of h

    // The passes have a state of their own. `sync` copies it to the system and the history. `changed` must be called after
    // the state of the system was changed, `refresh` after loads, handles or set-points were changed.
    void sync();
    // What a control loop reads, without the rest of `sync`, which takes longer than most steps.
    void sync_coordinates();                    // of the spanning tree, and their rates
    void write_poses(double* rows) const;       // (bodies, 4, 4)
    void write_velocities(double* rows) const;  // (bodies, 6)
    // Whether `write_poses` gives poses that follow from the coordinates of the system's tree. If the passes close other joints than
    // that tree does, their poses differ by the gaps of the loops.
    bool poses_follow_tree() const { return !current_ || same_tree_; }
    void changed() { current_ = false; }
    void refresh() { refreshed_ = inputs_recorded_ = false; }
    // The state of the passes that is not in the system and the history; restored to the last bit.
    std::size_t saved_size() const { return passes_ ? 3 + passes_->saved_size() : 0; }
    void save(std::vector<double>& flat) const;
    void restore(const double* flat);
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

    double time = 0;
    bool fresh = true;  // no equidistant history: the next step is backward Euler
    // Limits are stiff springs in parts of a step that have no solution with exact ones, from this number of halvings on.
    int soften_limits_at = 4;
    long long softened = 0;  // number of such parts
    History history;
    long long iterations = 0, factorisations = 0, steps_by_passes = 0;
    long long all_iterations() const { return iterations + (passes_ ? passes_->iterations : 0); }
    long long all_factorisations() const { return factorisations + (passes_ ? passes_->factorisations : 0); }

    // in a World: every body is a frame. A step in which a contact or limit is met is backward Euler. Limits are rows of the contact problem, because contact
    // forces may press a coordinate onto a limit or off it. In the step without contact the system's own rows enforce them.
    int frames() const override { return system_.bodies(); }
    Pose frame(int i) const override;
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
    double energy() const override;
    // Targets (n, driven rows) of the next n steps in a World.
    void schedule(const std::vector<int>& driven, std::vector<double> targets);

   private:
    void record(double h, int order, bool impact);
    bool step_by_passes(const std::vector<int>& driven, const double* targets);
    bool prepare_passes(bool new_targets);  // false: the fronts must solve the step
    void passes_refused();
    bool begin_sparse();
    bool advance(double h, int order);
    // Newton's iteration from the predictor. If it returns false, the state is unchanged.
    bool solve(double h, int order);
    void keep();
    void restore_kept_state();
    // What the reactions of the system depend on besides its state.
    struct Inputs {
        Acting acting;
        std::vector<double> applied;
        std::vector<Handle> handles;
    };
    void keep_inputs();            // those of a step by the passes that succeeded
    void sync_before_failure();    // `sync` after a step failed: reactions are those of the inputs of the step before
    bool solve_with_stops(double h);  // backward Euler with limits as stiff springs
    bool advance_with_stops(double h);
    bool divide(double h, const std::vector<int>& driven, const double* from, const double* to, int depth);
    double turned() const;  // largest rotation of a coordinate in this step, rad; infinite if a body turned too far
    void set_targets(const std::vector<int>& driven, const double* values);
    void advance_activations();  // to the end of the step
    void restore_activations();  // to its start
    void restore_before_begin();  // set-points, activations and counters, after a step in a World that failed
    bool divide_in_world();
    void find_convergence_failure(double motion);

    System& system_;
    double h_;
    int order_;
    double elapsed_ = 0;                    // fraction of the present time step that is done (if it is divided)
    std::vector<double> x_;
    State base_;
    struct {
        State state;
        std::vector<Vec6> velocity, momentum;
        std::vector<FlexibleState> flexible;
        std::vector<double> rate, targets, activations;
        std::vector<int> active;
        History history;
        Inputs inputs;
        double time = 0;
        bool finished = false, inputs_changed = false, system_outdated = false, fresh = true, current = false;
        int refusals = 0, steps_by_fronts = 0;
        long long softened = 0;
    } kept_;                               // state at the start of a step
    std::vector<int> driven_;
    std::vector<double> scheduled_;
    std::size_t next_ = 0;                 // of the scheduled steps
    std::vector<double> right_;
    std::vector<int> assumed_;             // rows that are active in the present iteration
    std::unique_ptr<Articulated> passes_;  // null if they do not cover the mechanism
    const char* uncovered_ = "";
    bool same_tree_ = true;                // they close the same joints as the system's tree
    bool wanted_ = true;
    bool current_ = false, refreshed_ = false;  // the passes have the system's state, and its loads
    Inputs inputs_;                        // of the last step by the passes that succeeded
    bool inputs_changed_ = false;          // the passes have others
    bool inputs_recorded_ = false;         // the tape has the present inputs
    bool system_outdated_ = false;                   // the system does not have the passes' state yet
    int contact_order_ = 1;                // of the step in a World
    bool impact_ = false;                  // it must be backward Euler
    bool begun_by_passes_ = false;         // in a World, the passes solve the step that has begun
    bool finished_by_passes_ = false;      // and they have finished it
    int refusals_ = 0, steps_by_fronts_ = 0;         // consecutive steps that the passes could not solve; next steps to solve with the fronts
    double shift_ = 0;                     // stiffness that the tangent adds to all coordinates, over the mechanism's
    bool limit_changed_ = false, shrinking_ = true;  // a limit was met or left in the last step; the old tangent can be reused
    State predicted_;                      // in a World: the state at which the step is linearised
    std::vector<double> free_;             // and its solution without contact
};

}  // namespace supple
