// A probe that a haptic device moves over a soft skin, in a thread of its own.
//
// The probe is massless. A spring k and a damper d couple it to the device; in a tick of h seconds, by backward Euler,
// the probe's position x under a contact force F is
//     x = x_t + F / a,     x_t = x_device + (d / h) / a (x_before - x_device_before),     a = k + d / h.
// x_t is moved towards x_before so that a |x_t - x_before| stays below the largest force. The pad's contact problem
// gains the compliance 1 / a.
//
// The probe has a place on the unpressed surface and the outward normal there. While it touches, the place follows its
// motion along the surface only, so that a probe that is deep in the skin, or beyond its middle, is still pressed from
// the side it came from.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <thread>

#include "contact/pad_statics.hpp"

namespace supple {

class Probe {
   public:
    struct Settings {
        double radius = 0, stiffness = 0, damping = 0, most_force = 0, friction = 0, period = 1e-3;
        bool mask = false;  // a pressure mask instead of a ball
    };
    struct Skin {
        PadStatics statics;
        Eigen::VectorXd areas;
        bool same_points = false;  // as those of the skin before
    };
    struct Output {
        Vec3 force = Vec3::Zero(), position = Vec3::Zero();
        Mat3 stiffness = Mat3::Zero();
        long ticks = 0;
        bool failed = false;  // the last tick had no finite solution; its force is zero
    };
    static constexpr int bins = 5000;  // of 1 microsecond; the last one holds everything above
    struct Statistics {
        long ticks = 0, missed = 0;  // missed: ticks that ended after the next one was due
        double most_work = 0, total_work = 0, most_late = 0, total_late = 0;
        std::array<int, bins> work{}, late{};  // histograms
    };

    Probe(const Settings& settings, std::shared_ptr<Skin> skin, const Vec3& position);
    ~Probe() { stop(); }

    void move(const Vec3& device);
    void set_skin(std::shared_ptr<Skin> skin);
    void tick();  // not while the thread runs
    void start();
    void stop();
    bool running() const { return running_; }
    Output output() const;
    Statistics statistics() const;

   private:
    void loop();
    void take_skin(std::shared_ptr<Skin> next);
    void solve(const Vec3& device);
    bool press(const Vec3& at, const PadStatics::Start& start, const PadStatics::Support& support);
    bool near_skin(double reach) const;
    void follow_surface(const Vec3& at);

    Settings settings_;
    // shared, under the mutex
    mutable std::mutex mutex_;
    Vec3 device_;
    std::shared_ptr<Skin> next_skin_;
    Output output_;
    Statistics statistics_;
    // of the thread
    std::shared_ptr<Skin> skin_;
    Vec3 position_, device_before_;
    Vec3 place_, up_ = Vec3::UnitZ();  // on the surface near the probe: a place and the outward normal
    bool placed_ = false, touches_ = false;  // there is such a place; the last tick had a contact force
    Eigen::VectorXd before_, forces_;
    std::atomic<bool> running_{false};
    std::thread thread_;
};

}  // namespace supple
