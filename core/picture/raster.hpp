// Triangles drawn into a picture with a depth buffer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace supple {

class Canvas {
   public:
    // Pixels are computed `samples` x `samples` times and averaged.
    Canvas(int width, int height, int samples);

    // Fills it with rows of colours (height, 3) and clears the depths.
    void clear(const double* rows);

    // Draws n triangles. Corners (n, 3, 3): x to the right and y downwards in pixels, then nearness, which is larger
    // closer to the camera and linear in the picture. Colours (n, 3, 3) of the corners, 0 to 255.
    void draw(const double* corners, const double* colours, std::size_t n);

    // Averages the samples into a picture (height, width, 3).
    void read(std::uint8_t* picture) const;

    int width() const { return width_; }
    int height() const { return height_; }

   private:
    void triangle(const double* corners, const double* colours);

    int width_, height_, samples_;
    std::vector<std::uint8_t> colours_;  // (samples height, samples width, 3)
    std::vector<float> nearness_;
};

}  // namespace supple
