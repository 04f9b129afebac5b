// A pool of threads that repeatedly share one loop.
#pragma once

#include <atomic>
#include <functional>
#include <thread>
#include <vector>

namespace supple {

class Team {
   public:
    explicit Team(int threads) {
        for (int t = 1; t < threads; ++t)
            workers_.emplace_back([this, t, threads] {
                int seen = 0;
                while (true) {
                    for (int spin = 0; spin < 20000 && generation_.load(std::memory_order_acquire) == seen; ++spin)
                        pause();
                    generation_.wait(seen, std::memory_order_acquire);  // sleeps until the next call
                    if (stop_.load(std::memory_order_relaxed)) return;
                    ++seen;
                    work_(t, threads);
                    finished_.fetch_add(1, std::memory_order_release);
                }
            });
    }
    ~Team() {
        stop_ = true;
        generation_.fetch_add(1, std::memory_order_release);
        generation_.notify_all();
        for (std::thread& worker : workers_) worker.join();
    }
    Team(const Team&) = delete;

    // Calls work(thread, threads) on every thread, including the calling one, and returns when all are done.
    template <class Work>
    void run(const Work& work) {
        if (workers_.empty()) return work(0, 1);
        const int threads = static_cast<int>(workers_.size()) + 1;
        work_ = std::cref(work);
        finished_.store(0, std::memory_order_relaxed);
        generation_.fetch_add(1, std::memory_order_release);
        generation_.notify_all();
        work(0, threads);
        while (finished_.load(std::memory_order_acquire) < threads - 1) pause();
    }

   private:
    static void pause() {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
    }
    std::function<void(int, int)> work_;
    std::vector<std::thread> workers_;
    std::atomic<int> generation_{0}, finished_{0};
    std::atomic<bool> stop_{false};
};

}  // namespace supple
