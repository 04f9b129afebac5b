// Eight parts of a floating model at a time, one in each lane.
#pragma once

#include <array>

#include "abreast.hpp"
#include "floating.hpp"

namespace supple {

// Gauss and Jordan, for positive definite matrices (n, n), row by row, one in each lane.
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

// Of a symmetric, positive definite matrix, by its blocks.
SUPPLE_INLINE Mat6 inverted(const Mat6& A) {
    const Mat3 first = A.topLeftCorner<3, 3>().inverse(), down = A.bottomLeftCorner<3, 3>() * first;
    const Mat3 rest = (A.bottomRightCorner<3, 3>() - down * A.topRightCorner<3, 3>()).inverse(), back = -rest * down;
    return blocks(first - down.transpose() * back, back.transpose(), back, rest);
}

// Parts of as many coordinates each, and their links. Where parts are few, each has several lanes for its links: lane l
// belongs to part l mod count. Systems are kept in the first `count` lanes, the others are identities.
struct Floating::Group {
    struct Block {               // a link of each lane; lanes without one have no mass
        int link[width];
        bool shown[width];       // carries a tip
        Turn rest_turn;
        Three rest_place;
        Six offset;
        Eight mass;
        Three centre;
        Turn inertia;
        std::vector<Six> map, screw;  // a column for each coordinate
        // at the present coordinates, seen from the base
        Turn turn, turned;
        Three place, at;
        bool shows = false;      // any tip
        Six twist;               // at the end of the step, if it does

        SUPPLE_INLINE Six momentum(const Six& twist) const {
            const Three linear = mass * (twist.linear + cross(twist.angular, at));
            return {linear, turned * twist.angular + cross(at, linear)};
        }
        void follow(const Eight* y);
    };
    struct Round {               // touches and limits, at most one of each part: what they do there
        int row[width];          // of the participant's rows, -1 without one
        int rows[width];         // 3 of a touch, 1 of a limit
        Six by_base[3], left[3]; // per row: on the base, and what arrives there
        std::vector<Eight> by_part, moved;  // (n, 3): per row on the part, and how that moves it
    };

    int size = 0, count = 0;     // coordinates of each part; parts
    std::vector<std::array<int, width>> columns;  // coordinate of each row and lane
    std::vector<Block> blocks;
    std::vector<Round> rounds;
    int used = 0;                // rounds of this step
    // (n, n), (n, 6) and (n,), row by row
    std::vector<Eight> own, held, fixed, spring;  // armature, mass with the base held, h D + h^2 K, h K
    std::vector<Eight> M, A, inverse, M_base, A_base, follows, right, fresh, y, v;

    Block empty_block() const;
    Round& round(int& lane);     // the first with a free lane for the part in that lane
    void answer(const Vec6& base, Wrenches& left, double* free);
    void add_within(const Round& a, const Round& b, Eigen::Map<Matrix>& W) const;
    void push(const Round& round, const double* impulses);
    void gather(const Vector& from, std::vector<Eight>& to) const {
        for (int i = 0; i < size; ++i)
            for (int l = 0; l < width; ++l) to[i][l] = from[columns[i][l]];
    }
    // A part's value, in all its lanes.
    SUPPLE_INLINE Eight spread(Eight first) const {
        for (int l = count; l < width && 2 * count <= width; ++l) first[l] = first[l % count];
        return first;
    }
    // The sum over all lanes of a part in its first, nothing in the others.
    SUPPLE_INLINE Eight folded(const Eight& all) const {
        if (2 * count > width) return all;
        Eight result{};
        for (int l = 0; l < width; ++l)
            if (l < width / count * count) result[l % count] += all[l];
        return result;
    }
};

}  // namespace supple
