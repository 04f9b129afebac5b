// Eight numbers side by side, and vectors and rotations of eight things at once.
#pragma once

#include "eight.hpp"

namespace supple::abreast {

inline constexpr int wide = width;
using Lanes = Eight;

// a x b of the first three lanes, and of the next three
SUPPLE_INLINE Lanes cross_both(const Lanes& a, const Lanes& b) {
    return picked<1, 2, 0, 4, 5, 3, 6, 7>(a) * picked<2, 0, 1, 5, 3, 4, 6, 7>(b) -
           picked<2, 0, 1, 5, 3, 4, 6, 7>(a) * picked<1, 2, 0, 4, 5, 3, 6, 7>(b);
}

// ad(s)^T w = (f x w_s, f x v_s + m x w_s)
SUPPLE_INLINE Lanes bracket(const Lanes& s, const Lanes& w) {
    const Lanes none = {};
    const Lanes turn = picked<3, 4, 5, 3, 4, 5, 6, 7>(s);
    return cross_both(w, turn) + cross_both(picked<8, 8, 8, 0, 1, 2, 8, 8>(w, none), picked<8, 8, 8, 0, 1, 2, 8, 8>(s, none));
}

// rows[k][l] becomes rows[l][k]
SUPPLE_INLINE void transpose(Lanes* v) {
    Lanes a[8], b[8];
    for (int k = 0; k < 8; k += 2) {
        a[k] = picked<0, 8, 2, 10, 4, 12, 6, 14>(v[k], v[k + 1]);
        a[k + 1] = picked<1, 9, 3, 11, 5, 13, 7, 15>(v[k], v[k + 1]);
    }
    for (int k = 0; k < 8; k += 4)
        for (int l = 0; l < 2; ++l) {
            b[k + l] = picked<0, 1, 8, 9, 4, 5, 12, 13>(a[k + l], a[k + 2 + l]);
            b[k + 2 + l] = picked<2, 3, 10, 11, 6, 7, 14, 15>(a[k + l], a[k + 2 + l]);
        }
    for (int l = 0; l < 4; ++l) {
        v[l] = picked<0, 1, 2, 3, 8, 9, 10, 11>(b[l], b[l + 4]);
        v[l + 4] = picked<4, 5, 6, 7, 12, 13, 14, 15>(b[l], b[l + 4]);
    }
}

struct Row3 {
    Lanes x, y, z;
};
SUPPLE_INLINE Row3 operator+(const Row3& a, const Row3& b) { return {a.x + b.x, a.y + b.y, a.z + b.z}; }
SUPPLE_INLINE Row3 operator*(const Lanes& s, const Row3& a) { return {s * a.x, s * a.y, s * a.z}; }
SUPPLE_INLINE Row3 operator*(double s, const Row3& a) { return {s * a.x, s * a.y, s * a.z}; }
SUPPLE_INLINE Row3 cross(const Row3& a, const Row3& b) {
    return {a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x};
}
SUPPLE_INLINE Lanes dot(const Row3& a, const Row3& b) { return a.x * b.x + a.y * b.y + a.z * b.z; }

struct Turn {  // rotation matrices, by columns
    Row3 c[3];
    SUPPLE_INLINE Row3 operator*(const Row3& v) const { return v.x * c[0] + (v.y * c[1] + v.z * c[2]); }
    SUPPLE_INLINE Row3 back(const Row3& v) const { return {dot(c[0], v), dot(c[1], v), dot(c[2], v)}; }
};

}  // namespace supple::abreast
