// Eight parts of a floating model in the lanes of vector instructions.
#pragma once

#include <array>

#include "reduced/floating.hpp"
#include "spatial/abreast.hpp"

namespace supple {

// Inverts positive definite matrices (n, n), stored by rows, in place by Gauss-Jordan elimination; one in each lane.
template <int n>
SUPPLE_INLINE void invert(Eight* A, int size = n) {
#pragma GCC unroll 4
    for (int k = 0; k < size; ++k) {
        const Eight pivot = 1 / A[k * size + k];
        A[k * size + k] = every(1);
        for (int j = 0; j < size; ++j) A[k * size + j] *= pivot;
#pragma GCC unroll 4
        for (int i = 0; i < size; ++i) {
            if (i == k) continue;
            const Eight factor = A[i * size + k];
            A[i * size + k] = Eight{};
            for (int j = 0; j < size; ++j) A[i * size + j] -= factor * A[k * size + j];
        }
    }
}

// Inverse of a symmetric, positive definite matrix, by its blocks.
SUPPLE_INLINE Mat6 inverted(const Mat6& A) {
    const Mat3 first = A.topLeftCorner<3, 3>().inverse(), down = A.bottomLeftCorner<3, 3>() * first;
    const Mat3 rest = (A.bottomRightCorner<3, 3>() - down * A.topRightCorner<3, 3>()).inverse(), back = -rest * down;
    return blocks(first - down.transpose() * back, back.transpose(), back, rest);
}

// Parts with equally many coordinates, and their links. If there are few parts, the links of each are spread over
// several lanes: lane l belongs to part l mod count. The matrices of the parts are in the first `count` lanes; the
// other lanes have identity matrices.
struct Floating::Group {
    struct Block {  // one link in each lane; lanes without a link have zero mass
        int link[width];
        bool has_tip[width];  // whether the link has a tip
        Turn rest_turn;
        Three rest_place;
        Six offset;
        Eight mass;
        Three centre;
        Turn inertia;
        std::vector<Six> map, screw;  // Phi and S, a column for each coordinate
        // at the present coordinates, in base axes: rotation and inertia, origin and centre of mass
        Turn turn, base_inertia;
        Three place, base_centre;
        bool any_tip = false;  // whether a link of this block has a tip
        Six twist;  // at the end of the step, only if a link has a tip

        SUPPLE_INLINE Six momentum(const Six& twist) const {
            const Three linear = mass * (twist.linear + cross(twist.angular, base_centre));
            return {linear, base_inertia * twist.angular + cross(base_centre, linear)};
        }
        void evaluate(const Eight* y);
    };
    struct Round {  // contacts and limits, at most one of each part
        int row[width];  // first row in the contact problem, -1 if the lane has none
        int rows[width];  // 3 for a contact, 1 for a limit
        Six by_base[3];  // Jacobian of each row with respect to the base
        std::vector<Eight> by_part, response;  // (n, 3): Jacobian with respect to the part, and A^-1 times it
    };

    int size = 0, count = 0;  // coordinates of each part; parts
    std::vector<std::array<int, width>> columns;  // coordinate of each row and lane
    std::vector<Block> blocks;
    std::vector<Round> rounds;
    int rounds_used = 0;  // rounds of this step
    // (n, n), (n, 6) and (n,), row by row
    std::vector<Eight> armature, fixed_base_mass, damping_stiffness, step_stiffness;  // the last two: h D + h^2 K, h K
    std::vector<Eight> M, A, inverse, M_base, A_base, base_response, rhs, rates, y, v;  // base_response: A^-1 A_base

    Block empty_block() const;
    Round& round(int& lane);  // the first round whose lane is free
    void respond_in_parts(const Vec6& base, Wrenches& left, double* free);
    void add_coupling(const Round& a, const Round& b, Eigen::Map<Matrix>& W) const;
    void apply_impulses(const Round& round, const double* impulses);
    void gather(const Vector& from, std::vector<Eight>& to) const {
        for (int i = 0; i < size; ++i)
            for (int l = 0; l < width; ++l) to[i][l] = from[columns[i][l]];
    }
    // Copies the value of each part into all lanes of its links.
    SUPPLE_INLINE Eight spread(Eight first) const {
        for (int l = count; l < width && 2 * count <= width; ++l) first[l] = first[l % count];
        return first;
    }
    // Sums over the lanes of each part; the result is in its first lane, zeros in the others.
    SUPPLE_INLINE Eight folded(const Eight& all) const {
        if (2 * count > width) return all;
        Eight result{};
        for (int l = 0; l < width; ++l)
            if (l < width / count * count) result[l % count] += all[l];
        return result;
    }
};

}  // namespace supple
