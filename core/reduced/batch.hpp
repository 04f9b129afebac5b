// Copies of one reduced model, stepped together.
//
// Arrays hold one row per number and one column per copy, so that eight neighbouring copies are the lanes of one vector
// (`Eight`). A block is eight copies. The threads of a team share the blocks. Python sees the arrays through strides,
// without copying them.
#pragma once

#include <cstdint>
#include <memory>
#include <new>
#include <vector>

#include "reduced/reduced.hpp"
#include "spatial/abreast.hpp"

namespace supple {

// Rows of numbers, one column for each copy. The columns are padded to whole blocks.
class Columns {
   public:
    Columns(int rows, int copies);
    double* row(int r) { return data_.get() + static_cast<std::size_t>(r) * stride_; }
    const double* row(int r) const { return data_.get() + static_cast<std::size_t>(r) * stride_; }
    Eight at(int r, int block) const { return load(row(r) + width * block); }
    void put(int r, int block, const Eight& value) { store(row(r) + width * block, value); }
    void fill(int r, double value);
    int stride() const { return stride_; }
    int rows() const { return rows_; }

   private:
    int rows_, stride_;
    struct Free {
        void operator()(double* p) const { ::operator delete[](p, std::align_val_t(64)); }
    };
    std::unique_ptr<double[], Free> data_;
};

// What all batches share: loads and base poses in, poses and velocities of the end effectors out.
class Batch {
   public:
    Batch(int copies, int tips, int threads);
    virtual ~Batch() = default;

    const int copies, tips;
    Columns wrench;  // 6 rows for each tip: force, torque
    Columns in_body;  // a row for each tip: 1 if its wrench is in its own axes, 0 if in those of the world
    Columns base;  // 12 rows: rotation by rows, then position; pose of the mechanism's world frame in the world
    Columns pose;  // 16 rows for each tip, world pose (4, 4) by rows
    Columns velocity;  // 6 rows for each tip: body twist
    Columns time;  // s
    std::vector<std::uint8_t> failed;  // by copy: its last step had no finite result, and it keeps the state before

    // Sets wrenches (copies, tips, 6), given with strides, of some copies. Returns the place in `which` of the first
    // one that has a number that is not finite, and then changes nothing; otherwise -1.
    int apply(const double* values, const std::int64_t* strides, bool world, const std::vector<int>& which);
    void set_base(int copy, const double* rows);  // (4, 4)
    void load_changed(int copy) { changed_[copy / width] = 1; }
    int step(int n);  // returns the number of copies that have failed
    void update();  // poses and velocities at the present state

   protected:
    virtual void step_block(int block, int n, int thread) = 0;
    virtual void update_block(int block, int thread) = 0;
    int blocks() const { return static_cast<int>(changed_.size()); }
    int threads() const { return threads_; }
    std::vector<std::uint8_t> changed_;  // by block: loads, set-points or base poses have changed since the last step

   private:
    template <class Work>
    void run_on_team(const Work& work);
    int threads_;
    Team team_;
};

// A linear model: the same time step as `Reduced`, for eight copies at once.
class LinearBatch : public Batch {
   public:
    struct Given {  // what the copies share; M, D, K (m, m), b (m,), poses (tips) and maps (6, m) of the tips
        Matrix mass, damping, stiffness;
        Vector bias;
        std::vector<Pose> rest;
        std::vector<Matrix> map;
        double h;
    };
    LinearBatch(Given given, int copies, int threads);

    Columns y, v;  // (m) coordinates and their rates
    // Effect of a set-point per unit: on the coordinates at which the springs are unloaded (m,), and on the twists of
    // the tips (6 tips,) in directions that no spring acts in. Returns its index.
    int add_target(const Vector& goal, const Vector& offset);
    void set_target(int target, int copy, double change);  // from its value in the model

   protected:
    void step_block(int block, int n, int thread) override;
    void update_block(int block, int thread) override;

   private:
    struct Scratch {
        std::vector<Eight> y, v, right, fresh, by_twist, pushed, system, loaded;
        std::vector<Six> rest_wrench;  // of each tip, in the axes of its rest pose, or in its own
    };
    Six twist_of(int tip, const Eight* y, const Columns* offset, int block) const;
    void prepare_block(int block, Scratch& s);
    void evaluate_targets(int block);
    void gather_wrenches(int block, Scratch& s) const;
    void invert_scalar(const Scratch& s, Eight* into) const;

    const Given given_;
    const int m_;
    bool stiffness_positive_;
    std::vector<double> mass_, stiffness_, plain_;  // (m, m) by rows; M + h D + h^2 K
    std::vector<double> map_;  // by tip: (6, m) by rows
    std::vector<Eight> inverse_;  // by block: (m, m) by rows
    std::vector<std::uint8_t> loaded_;  // by block and tip: a wrench is not zero
    Columns goal_, offset_;  // (m), (6 tips)
    std::vector<Columns> changes_;  // by set-point: change from its value in the model
    std::vector<Vector> goal_effect_, offset_effect_;
    std::vector<Scratch> scratch_;  // by thread
};

// One copy of a model whose time step does not run in lanes.
class BatchMember {
   public:
    virtual ~BatchMember() = default;
    virtual bool step() = 0;
    virtual ExternalLoad& tip(int i) = 0;
    virtual void loads_changed() = 0;
    virtual Pose tip_pose(int i) = 0;
    virtual Vec6 tip_velocity(int i) = 0;  // body twist
    virtual double time() const = 0;
};

// Copies that are stepped one by one, shared among threads.
class ThreadedBatch : public Batch {
   public:
    ThreadedBatch(std::vector<BatchMember*> members, int tips, int threads);

   protected:
    void step_block(int block, int n, int thread) override;
    void update_block(int block, int thread) override;

   private:
    std::vector<BatchMember*> members_;
};

}  // namespace supple
