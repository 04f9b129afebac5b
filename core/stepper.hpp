// Implicit time stepping of a System: backward Euler or BDF2, Newton's method in every step.
#pragma once

#include "contact.hpp"
#include "system.hpp"

namespace supple {

class Stepper : public Participant {
   public:
    Stepper(System& system, double h, int order) : system_(system), h_(h), order_(order) {}

    // Starts at the system's coordinates, with twists of the bodies and rates of every coordinate's increments.
    void start(const std::vector<Vec6>& velocities, const std::vector<double>& rates);

    // One step of h to `targets`, the values of the equality rows `driven` at its end. A step that does not converge
    // is done again in halves; false: it failed at every size, and the state is that of the last good one.
    bool step(const std::vector<int>& driven, const double* targets);

    void accept(double h);  // the system's state as the end of a step of h

    double time = 0;
    bool fresh = true;  // the next step looks back one step only
    History history;
    long long iterations = 0, factorisations = 0;

    // in a World: every body is a frame; steps of backward Euler. Limits are rows of the contact problem, since what
    // touches may press a coordinate onto one or off it; the step itself keeps them by the system's own rows.
    int frames() const override { return system_.bodies(); }
    Pose frame(int i) const override { return history.H[i]; }
    Vec6 free_velocity(int i) const override;
    bool begin() override;
    void limits(std::vector<Limit>& out) const override;
    void respond(const std::vector<Touch>& touches, const std::vector<Limit>& limits, double* free,
                 double* response) override;
    bool finish(const std::vector<Touch>& touches, const std::vector<Limit>& limits, const double* impulses) override;
    void abandon() override;
    double energy() const override;
    // Targets (n, driven rows) of the next n steps in a World.
    void schedule(const std::vector<int>& driven, std::vector<double> targets);

   private:
    bool advance(double h, int order);
    // Newton's iteration from the present state, or from where the rates lead; false: the state is put back.
    bool solve(double h, int order, bool from_here);
    void keep();
    void put_back();
    bool divide(double h, const std::vector<int>& driven, const double* from, const double* to, int depth);
    double turned() const;  // most that a coordinate turned in this step, rad; infinite if a body turned too far
    void set_targets(const std::vector<int>& driven, const double* values);

    System& system_;
    double h_;
    int order_;
    std::vector<double> x_;
    State base_;
    struct {
        State state;
        std::vector<Vec6> velocity, momentum;
        std::vector<double> rate, targets;
        std::vector<int> active;
        History history;
        double time = 0;
        bool finished = false;
    } kept_;                               // what a step started from
    std::vector<int> driven_;
    std::vector<double> scheduled_;
    std::size_t next_ = 0;                 // of the scheduled steps
    std::vector<double> right_;
    std::vector<int> assumed_;             // rows taken as active by the step that is being solved
    bool hit_ = false, shrinking_ = true;  // a limit was met or left in the last step; the old tangent still serves
};

}  // namespace supple
