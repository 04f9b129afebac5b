#include "picture/raster.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace supple {

Canvas::Canvas(int width, int height, int samples) : width_(width), height_(height), samples_(samples) {
    const std::size_t pixels = static_cast<std::size_t>(width) * height * samples * samples;
    colours_.resize(3 * pixels);
    nearness_.resize(pixels);
}

void Canvas::clear(const double* rows) {
    const std::size_t columns = static_cast<std::size_t>(width_) * samples_;
    for (int y = 0; y < height_ * samples_; ++y) {
        const double* row = rows + 3 * (y / samples_);
        std::uint8_t* at = colours_.data() + 3 * columns * y;
        if (y % samples_) {
            std::copy(at - 3 * columns, at, at);
            continue;
        }
        std::uint8_t colour[3];
        for (int c = 0; c < 3; ++c) colour[c] = static_cast<std::uint8_t>(std::clamp(row[c], 0.0, 255.0));
        for (std::size_t x = 0; x < columns; ++x) std::copy(colour, colour + 3, at + 3 * x);
    }
    std::fill(nearness_.begin(), nearness_.end(), -std::numeric_limits<float>::infinity());
}

void Canvas::draw(const double* corners, const double* colours, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) triangle(corners + 9 * i, colours + 9 * i);
}

void Canvas::triangle(const double* corners, const double* colours) {
    const int columns = width_ * samples_, rows = height_ * samples_;
    double x[3], y[3], z[3];
    for (int i = 0; i < 3; ++i) {
        x[i] = corners[3 * i] * samples_;
        y[i] = corners[3 * i + 1] * samples_;
        z[i] = corners[3 * i + 2];
        if (!(std::abs(x[i]) < 1e7 && std::abs(y[i]) < 1e7)) return;  // far outside, or not a number
    }
    const double area = (x[1] - x[0]) * (y[2] - y[0]) - (x[2] - x[0]) * (y[1] - y[0]);
    if (area == 0.0) return;
    const int left = std::max(0, static_cast<int>(std::floor(*std::min_element(x, x + 3))));
    const int right = std::min(columns - 1, static_cast<int>(std::ceil(*std::max_element(x, x + 3))));
    const int top = std::max(0, static_cast<int>(std::floor(*std::min_element(y, y + 3))));
    const int bottom = std::min(rows - 1, static_cast<int>(std::ceil(*std::max_element(y, y + 3))));
    // barycentric coordinates at pixel centres: w_i = at_i + px_i (column - left) + py_i (row - top)
    float at[3], px[3], py[3];
    for (int i = 0; i < 3; ++i) {
        const int j = (i + 1) % 3, k = (i + 2) % 3;
        px[i] = static_cast<float>((y[j] - y[k]) / area);
        py[i] = static_cast<float>((x[k] - x[j]) / area);
        at[i] = static_cast<float>(
            ((x[j] - left - 0.5) * (y[k] - top - 0.5) - (x[k] - left - 0.5) * (y[j] - top - 0.5)) / area);
    }
    for (int row = top; row <= bottom; ++row) {
        const float down = static_cast<float>(row - top);
        const float w0 = at[0] + py[0] * down, w1 = at[1] + py[1] * down, w2 = at[2] + py[2] * down;
        // the columns where all three are not negative
        float first = 0.0f, last = static_cast<float>(right - left);
        const float w[3] = {w0, w1, w2};
        for (int i = 0; i < 3; ++i) {
            if (px[i] > 0.0f) first = std::max(first, -w[i] / px[i]);
            else if (px[i] < 0.0f) last = std::min(last, -w[i] / px[i]);
            else if (w[i] < 0.0f) last = -1.0f;
        }
        if (!(first <= last)) continue;
        const std::size_t start = static_cast<std::size_t>(row) * columns + left;
        const int end = static_cast<int>(std::floor(last));
        for (int column = static_cast<int>(std::ceil(first)); column <= end; ++column) {
            const float b0 = w0 + px[0] * column, b1 = w1 + px[1] * column, b2 = w2 + px[2] * column;
            const float near = static_cast<float>(b0 * z[0] + b1 * z[1] + b2 * z[2]);
            if (near <= nearness_[start + column]) continue;
            nearness_[start + column] = near;
            std::uint8_t* pixel = colours_.data() + 3 * (start + column);
            for (int c = 0; c < 3; ++c) {
                const double value = b0 * colours[c] + b1 * colours[3 + c] + b2 * colours[6 + c];
                pixel[c] = static_cast<std::uint8_t>(std::clamp(value + 0.5, 0.0, 255.0));
            }
        }
    }
}

void Canvas::read(std::uint8_t* picture) const {
    const std::size_t columns = 3 * static_cast<std::size_t>(width_) * samples_;
    const unsigned count = samples_ * samples_;
    std::vector<unsigned> sums(columns);  // of each column of samples
    for (int y = 0; y < height_; ++y) {
        std::fill(sums.begin(), sums.end(), 0u);
        for (int i = 0; i < samples_; ++i) {
            const std::uint8_t* row = colours_.data() + columns * (y * samples_ + i);
            for (std::size_t x = 0; x < columns; ++x) sums[x] += row[x];
        }
        for (int x = 0; x < width_; ++x)
            for (int c = 0; c < 3; ++c) {
                unsigned sum = count / 2;
                for (int j = 0; j < samples_; ++j) sum += sums[3 * (x * samples_ + j) + c];
                *picture++ = static_cast<std::uint8_t>(sum / count);
            }
    }
}

}  // namespace supple
