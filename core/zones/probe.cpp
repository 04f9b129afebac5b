#include "zones/probe.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>

namespace supple {

namespace {

using Clock = std::chrono::steady_clock;
constexpr int most_linearisations = 3;  // of the contact's geometry, in a tick
constexpr double largest_step = 0.5;  // of a probe that comes near the skin, in a tick, over its radius

double seconds(Clock::duration d) { return std::chrono::duration<double>(d).count(); }

double thread_time() {  // processor time of this thread, s
#ifdef CLOCK_THREAD_CPUTIME_ID
    timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
#else
    return seconds(Clock::now().time_since_epoch());
#endif
}

void count(std::array<int, Probe::bins>& histogram, double time) {
    ++histogram[std::clamp(static_cast<int>(1e6 * time), 0, Probe::bins - 1)];
}

Vec3 shortened(const Vec3& v, double most) {
    const double length = v.norm();
    return length > most ? Vec3(v * (most / length)) : v;
}

}  // namespace

Probe::Probe(const Settings& settings, std::shared_ptr<Skin> skin, const Vec3& position)
    : settings_(settings), device_(position), position_(position), device_before_(position) {
    take_skin(std::move(skin));
    output_.position = position;
}

void Probe::move(const Vec3& device) {
    const std::lock_guard lock(mutex_);
    device_ = device;
}

void Probe::set_skin(std::shared_ptr<Skin> skin) {
    const std::lock_guard lock(mutex_);
    // a skin that the thread has not taken yet is replaced
    if (next_skin_) skin->same_points = skin->same_points && next_skin_->same_points;
    next_skin_ = std::move(skin);
}

Probe::Output Probe::output() const {
    const std::lock_guard lock(mutex_);
    return output_;
}

Probe::Statistics Probe::statistics() const {
    const std::lock_guard lock(mutex_);
    return statistics_;
}

void Probe::take_skin(std::shared_ptr<Skin> next) {
    const int n = next->statics.state().points();
    if (skin_ && next->same_points && before_.size() == 3 * n) {
        // the points move with the bones; what sticks to the probe stays
        for (int i = 0; i < n; ++i)
            before_.segment<3>(3 * i) -= next->statics.collider().vertices[i] - skin_->statics.collider().vertices[i];
    } else {
        before_.setZero(3 * n);
        forces_.setZero(3 * n);
    }
    skin_ = std::move(next);
}

bool Probe::near_skin(double reach) const {
    for (const Vec3& x : skin_->statics.collider().vertices)
        if ((x - position_).squaredNorm() < reach * reach) return true;
    return false;
}

bool Probe::press(const Vec3& at, const PadStatics::Start& start, const PadStatics::Support& support) {
    follow_surface(at);
    PadStatics& skin = skin_->statics;
    if (settings_.mask)
        return skin.press_mask(at, settings_.radius, up_, skin_->areas, settings_.friction, start, support);
    const double margin = 0.05 * settings_.radius + support.approach.norm();
    return skin.press_ball(at, settings_.radius, up_, margin, std::max(settings_.friction, skin.collider().friction),
                           start, support);
}

// Finds the place on the surface below the probe and the normal there: means of the points around it.
void Probe::follow_surface(const Vec3& at) {
    const Collider& pad = skin_->statics.collider();
    const double reach = settings_.mask ? 0 : settings_.radius;
    const bool touches = placed_ && up_.dot(at - place_) < reach;
    const Vec3 guess = touches ? Vec3(at - up_.dot(at - place_) * up_) : at;
    double least = INFINITY;
    for (const Vec3& x : pad.vertices) least = std::min(least, (x - guess).squaredNorm());
    const double width = std::max(settings_.radius, skin_->statics.longest_edge());
    double total = 0;
    Vec3 normal = Vec3::Zero(), mean = Vec3::Zero();
    for (std::size_t i = 0; i < pad.vertices.size(); ++i) {
        if (touches && pad.normals[i].dot(up_) <= 0) continue;  // another side of the skin
        const double weight = std::exp((least - (pad.vertices[i] - guess).squaredNorm()) / (width * width));
        total += weight;
        normal += weight * pad.normals[i];
        mean += weight * pad.vertices[i];
    }
    if (!(total > 0 && normal.norm() > 0)) return;
    up_ = normal.normalized();
    place_ = guess - up_.dot(guess - mean / total) * up_;
    placed_ = true;
}

void Probe::solve(const Vec3& device) {
    const double damping = settings_.damping / settings_.period, a = settings_.stiffness + damping;
    Vec3 target = device + damping / a * (position_ - device_before_);
    target = position_ + shortened(target - position_, settings_.most_force / a);
    const Vec3 away = target - position_;
    // a probe that does not touch yet must not jump through the skin
    if (!touches_ && near_skin(settings_.radius + away.norm() + skin_->statics.longest_edge() +
                               skin_->statics.state().largest_displacement()))
        target = position_ + shortened(away, largest_step * settings_.radius);
    Vec3 x = position_, force = Vec3::Zero();
    bool solved = true;
    for (int k = 0; solved && k < most_linearisations; ++k) {
        PadStatics::Start start{&before_, {Mat3::Identity(), x - position_}, &forces_};
        solved = press(x, start, {1 / a, target - x});
        if (!solved) break;
        forces_ = skin_->statics.state().loads().forces;
        force = -skin_->statics.force();
        const Vec3 next = target + force / a;
        const double change = (next - x).norm();
        x = next;
        if (change < 1e-6 * settings_.radius) break;
    }
    solved = solved && x.allFinite() && force.allFinite();
    if (solved) {
        before_ = skin_->statics.state().displacements();
        position_ = x;
        touches_ = !force.isZero(0);
    } else {  // the next tick starts from an unpressed skin
        before_.setZero();
        forces_.setZero();
        force.setZero();
    }
    device_before_ = device;
    const Mat3 stiffness = solved ? skin_->statics.stiffness() : Mat3(Mat3::Zero());
    const std::lock_guard lock(mutex_);
    output_.force = shortened(force, settings_.most_force);
    output_.position = position_;
    output_.stiffness = stiffness;
    output_.failed = !solved;
    ++output_.ticks;
}

void Probe::tick() {
    Vec3 device;
    std::shared_ptr<Skin> next;
    {
        const std::lock_guard lock(mutex_);
        device = device_;
        next.swap(next_skin_);
    }
    if (next) take_skin(std::move(next));
    solve(device);
}

void Probe::start() {
    if (running_) return;
    {
        const std::lock_guard lock(mutex_);
        statistics_ = {};
    }
    running_ = true;
    thread_ = std::thread([this] { loop(); });
}

void Probe::stop() {
    running_ = false;
    if (thread_.joinable()) thread_.join();
}

void Probe::loop() {
    const auto period = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(settings_.period));
    auto due = Clock::now() + period;
    while (running_) {
        std::this_thread::sleep_until(due);
        const double late = seconds(Clock::now() - due), begun = thread_time();
        tick();
        const double work = thread_time() - begun;
        const auto end = Clock::now();
        bool missed = false;
        for (due += period; due < end; due += period) missed = true;
        const std::lock_guard lock(mutex_);
        Statistics& s = statistics_;
        ++s.ticks;
        s.missed += missed;
        s.most_work = std::max(s.most_work, work);
        s.most_late = std::max(s.most_late, late);
        s.total_work += work;
        s.total_late += late;
        count(s.work, work);
        count(s.late, late);
    }
}

}  // namespace supple
