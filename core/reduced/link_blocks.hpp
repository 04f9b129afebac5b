// Functions for the links of linear and blended models: eight links at a time, one in each lane.
#pragma once

#include <cstring>

#include "spatial/eight.hpp"

namespace supple {

struct Twists {  // of eight links
    Eight vx, vy, vz, wx, wy, wz;
};

// offset + Phi y; `map` holds Phi column by column, m x 6 x 8
SUPPLE_INLINE Twists twists_of(const double (*offset)[width], const double* map, int m, const double* y) {
    Eight vx = load(offset[0]), vy = load(offset[1]), vz = load(offset[2]);
    Eight wx = load(offset[3]), wy = load(offset[4]), wz = load(offset[5]);
    for (int j = 0; j < m; ++j, map += 6 * width) {
        const double by = y[j];
        vx += load(map) * by;
        vy += load(map + width) * by;
        vz += load(map + 2 * width) * by;
        wx += load(map + 3 * width) * by;
        wy += load(map + 4 * width) * by;
        wz += load(map + 5 * width) * by;
    }
    return {vx, vy, vz, wx, wy, wz};
}

// Writes the first three rows of the poses (4, 4) of `count` links. `rows` holds them number by number in its first
// twelve entries and is overwritten.
SUPPLE_INLINE void write_poses(Eight (&rows)[16], double* poses, int count) {
    for (int k = 12; k < 16; ++k) rows[k] = every(0);
    transpose(rows);
    transpose(rows + 8);
    for (int l = 0; l < count; ++l, poses += 16) {
        store(poses, rows[l]);
        std::memcpy(poses + 8, &rows[8 + l], 4 * sizeof(double));
    }
}

}  // namespace supple
