// A skin of elastic zones in motion: seam equations of a new pose, shape of the surface, compliance between touched
// points. The readable twin is supple.zones.posed.
#pragma once

#include <Eigen/Core>
#include <memory>
#include <vector>

#include "spatial/spatial.hpp"

namespace supple::zones {

using Eigen::MatrixXd, Eigen::MatrixXf, Eigen::VectorXd, Eigen::VectorXf;

// Numbers of a displacement M x + t: M by rows, then t.
inline constexpr int affine_size = 12;

// The terms of a zone (supple.zones.terms); equal zones share them. Amplitudes of a seam with m functions are stored as
// x of all functions, then y, then z, so that a rotation combines whole vectors.
struct Terms {
    // Arguments with the components of each function side by side. functions: of each seam of the zone; stiffness (n,
    // n) K; affine (n, 12 b) A, b: seams, then bones; motion (3 t, n) and affine_motion (3 t, 12 b) of free touch
    // nodes; surface_motion (3 v, n), surface_affine (3 v, 12 b) of free nodes of the surface.
    Terms(std::vector<int> functions, const MatrixXd& stiffness, const MatrixXd& affine, const MatrixXd& motion,
          const MatrixXd& surface_motion, const MatrixXd& surface_affine);

    std::vector<int> functions, starts;  // of each seam; first amplitude of each seam, and their number
    MatrixXd stiffness;  // K, A, U in component order
    MatrixXd affine;
    MatrixXd motion;
    MatrixXf surface;  // [U V] of the surface, in single precision
    std::vector<std::vector<MatrixXd>> blocks;  // for each pair of seams: K^(kl) for k, l = x, y, z
    MatrixXd affine_stiffness;  // (12 b, 12 b)
    MatrixXd affine_motion;  // (3 t, 12 b)
    MatrixXd compliance;  // (3 t, 3 t) of free touch nodes
    MatrixXd nodes, surface_nodes;  // (3, t), (3, v) places in the zone's frame
};

struct Zone {
    std::shared_ptr<const Terms> terms;
    std::vector<int> seams;
    int bones = 0;
    std::vector<int> surface_vertices;  // (v)
    // nodes that bones carry: bone, vertex and place in the zone's frame
    std::vector<int> carried_bones, carried_vertices;
    MatrixXd carried_nodes;  // (3, c)

    // constants of poses: body of each bone (-1: the world; the first is the body of the frame), pose of the zone's
    // frame at the reference pose in that body's frame there
    std::vector<int> bodies;
    std::vector<Pose> on_body;
    Pose reference;  // of the zone's frame in the world
};

// Displacements of touched points near a seam per force on them that the functions of the seam leave out
// (supple.zones.residual).
struct Residual {
    Vec3 axis;  // about which the second zone turns against the first, in the axes of the first
    std::vector<double> angles;  // rising, rad, since the reference pose; empty: no residual
    std::vector<MatrixXd> compliances;  // (3 n, 3 n) for each angle, each point in the axes of its zone
    std::vector<int> first, second;  // place among the n points of each free touch node of the two zones; -1: none
    std::vector<int> own;  // the same for each node of the seam, in the axes of the first zone
};

struct Seam {
    std::vector<int> zones;
    MatrixXd functions;  // (k, m) values of the scalar functions at the seam's nodes
    MatrixXd nodes;  // (3, k) in the frame of its first zone
    std::vector<int> vertices;  // (k)
    Residual residual;
};

// A point that is touched: a free touch node of a zone, or a node of a seam (zone < 0).
struct TouchPoint {
    int zone = -1, seam = -1, row = 0;
};

class Skin {
   public:
    // order: seams in order of elimination; below[j]: seams eliminated later that are coupled with j in the factor, in
    // order
    Skin(std::vector<Zone> zones, std::vector<Seam> seams, std::vector<int> order, std::vector<std::vector<int>> below,
         int vertices);

    // A new pose: seam equations, factor, amplitudes of the unpressed skin. poses: (bodies, 4, 4).
    void move(const double* poses, int bodies);

    double energy() const;
    // (v, 3) vertices of the unpressed skin, m. Surface displacements are summed in single precision (1e-8 m).
    const std::vector<double>& vertices();

    // Position of a touched point of the unpressed skin.
    Vec3 point(const TouchPoint& at) const;
    // (3 p, 3 p) displacements per force between points, world axes, m/N.
    void compliance(const std::vector<TouchPoint>& points, MatrixXd& into);

    const VectorXd& amplitudes(int seam) const { return amplitudes_[seam]; }
    const Pose& frame(int zone) const { return frames_[zone]; }

   private:
    struct Coupling {
        int zone, row, column;  // places in the zone's list of seams
        int row_seam, column_seam;  // the row's seam is eliminated after the column's
    };

    void find_frames(const double* poses, int bodies);
    void find_affine();
    void assemble();
    void factorise();
    // x <- L^-1 x, a matrix for each seam. `zero`: seams whose right-hand side is zero; cleared where the solution is
    // not.
    void solve_lower(std::vector<MatrixXd>& x, std::vector<bool>& zero) const;
    void solve_upper(std::vector<MatrixXd>& x) const;
    VectorXd zone_amplitudes(int zone) const;  // in the zone's axes
    void add_residual(int seam, const std::vector<TouchPoint>& points, MatrixXd& into) const;
    int slot(int i, int j) const { return slots_[i * static_cast<int>(seams_.size()) + j]; }

    std::vector<Zone> zones_;
    std::vector<Seam> seams_;
    std::vector<int> order_;
    std::vector<std::vector<int>> below_;
    // By zone, then seam's zones: reference frame of the zone seen from another zone's
    std::vector<std::vector<Pose>> to_other_;
    std::vector<Coupling> couplings_;

    std::vector<Pose> frames_;
    std::vector<std::vector<Pose>> carried_;
    std::vector<VectorXd> affine_;
    std::vector<int> slots_;  // of block (i, j), i >= j in the factor; -1: none
    std::vector<MatrixXd> blocks_;  // rows of seam i, columns of seam j: matrix, then factor
    std::vector<bool> filled_;
    std::vector<VectorXd> amplitudes_;
    std::vector<double> vertices_;
    std::vector<VectorXf> surface_result_;
};

}  // namespace supple::zones
