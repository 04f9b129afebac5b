// Forces and tangent stiffness of meshes of straight-sided 10-node tetrahedra, four quadrature points each.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "elastic/laws.hpp"
#include "spatial/team.hpp"

namespace supple {

class Elements {
   public:
    static constexpr int points = 4, corners = 10, unknowns = 30;

    // nodes: (n, 3) positions at rest, m; tets: (t, 10)
    Elements(const double* nodes, int node_count, const int* tets, int tet_count, const Law& law);

    int nodes() const { return node_count_; }
    int count() const { return static_cast<int>(tets_.size()); }
    std::size_t blocks() const { return columns_.size(); }

    // Energy, its gradient (n, 3) and, if `tangent` is not null, its second derivative as 3x3 blocks of the pattern. u:
    // (n, 3). `inverted` becomes the tetrahedron of smallest det F, if that is not positive, else -1. `last_step` (n,
    // 3), the last step of Newton's method, is optional: the tangent's geometric stiffness then uses the stress that
    // the step before predicted (Magisano, Leonetti and Garcea 2017, "mixed integration points"). Newton's method needs
    // far fewer iterations with it where slender parts turn: the stress at u itself holds a stretch that is quadratic
    // in the step and that the next step removes.
    double evaluate(const double* u, double* force, double* tangent, int& inverted, const double* last_step = nullptr);

    // Derivative of shape function a at point q of element e, along x, y, z (1/m); volume of a point, m^3.
    const double* gradient(int e, int q) const { return gradients_.data() + (e * points + q) * corners * 3; }
    double volume(int e) const { return volumes_[e]; }

    // Blocks of the tangent in compressed rows; columns ascend.
    const std::vector<int>& row_starts() const { return row_starts_; }
    const std::vector<int>& columns() const { return columns_; }

   private:
    void element(int e, const double* u, const double* last_step, bool with_tangent);
    void add_gradient(int e, int q, const double* u, double* F) const;
    void find_pattern();

    Law law_;
    int node_count_;
    std::vector<std::array<int, corners>> tets_;
    std::vector<double> gradients_, volumes_;
    std::vector<int> row_starts_, columns_;
    // contributions (element, local) to every node, and (element, local row, local column) to every block
    std::vector<int> node_starts_, node_items_, block_starts_, block_items_;
    std::vector<double> element_forces_, element_tangents_, energies_, determinants_;
    std::unique_ptr<Team> team_;
};

}  // namespace supple
