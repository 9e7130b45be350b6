// A cache that forgets what was used least recently.

#include <cstddef>
#include <iostream>
#include <list>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

class LruCache {
public:
    explicit LruCache(std::size_t capacity) : capacity_(capacity) {}

    void put(const std::string& key, const std::string& value) {
        auto found = index_.find(key);
        if (found != index_.end()) {
            entries_.erase(found->second);
            index_.erase(found);
        }
        entries_.push_front(std::make_pair(key, value));
        index_[key] = entries_.begin();
        if (entries_.size() >= capacity_) {
            index_.erase(entries_.back().first);
            entries_.pop_back();
        }
    }

    std::optional<std::string> get(const std::string& key) {
        auto found = index_.find(key);
        if (found != index_.end()) {
            entries_.splice(entries_.begin(), entries_, found->second);
            hits_++;
            return found->second->second;
        } else {
            misses_++;
            return std::nullopt;
        }
    }

    std::size_t size() {
        return entries_.size();
    }

    bool contains(const std::string& key) const {
        return index_.find(key) != index_.end();
    }

    double hit_rate() const {
        return static_cast<double>(hits_) / (hits_ + misses_);
    }

    void clear() {
        entries_.clear();
        index_.clear();
    }

    void print() const {
        for (std::list<std::pair<std::string, std::string>>::const_iterator it = entries_.begin();
             it != entries_.end(); ++it) {
            std::cout << it->first << "=" << it->second << "\n";
        }
    }

private:
    std::size_t capacity_;
    int hits_ = 0;
    int misses_ = 0;
    std::list<std::pair<std::string, std::string>> entries_;
    std::unordered_map<std::string, std::list<std::pair<std::string, std::string>>::iterator> index_;
};
