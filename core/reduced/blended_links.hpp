// Poses of the links of a blended model (FORK-1S, algorithm 4).
#pragma once

#include <vector>

#include "spatial/eight.hpp"
#include "spatial/team.hpp"

namespace supple {

// The weighted mean of the link poses of many models, by dual quaternions.
class BlendedLinks {
   public:
    struct Use {  // a model in use, its weight and the coordinates at which it is evaluated
        int model;
        double weight;
        const double* y;
    };
    BlendedLinks(int n, int threads) : n_(n), team_(threads) {}
    void add(const double* rest, const double* maps, int m);  // (n, 4, 4), (n, 6, m)
    void set_offsets(int model, const double* twists);  // (n, 6)
    void update(const std::vector<Use>& use, double* poses);
    void clear() { models_.clear(); }
    int count() const { return n_; }
    bool published = false;  // the mean of algorithm 4 as printed

   private:
    struct Block {
        alignas(64) double offset[6][width];
        alignas(64) double turn[4][width];  // quaternion, w first
        alignas(64) double place[3][width];
        alignas(64) double rotation[9][width];
    };
    struct Model {
        int m;
        std::vector<Block> blocks;
        std::vector<double> maps;  // per block: m x 6 x width
    };
    void run(const std::vector<Use>& use, int index, double* poses) const;
    void run_published(const std::vector<Use>& use, int index, double* poses) const;

    int n_;
    std::vector<Model> models_;
    Team team_;
};

}  // namespace supple
