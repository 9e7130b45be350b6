// Figures about a series of measurements.

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

namespace stats {

double sum(const std::vector<double>& values) {
    double total = 0;
    for (size_t i = 0; i < values.size(); i++) {
        total += values[i];
    }
    return total;
}

double mean(const std::vector<double>& values) {
    return sum(values) / values.size();
}

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

double variance(std::vector<double> values) {
    double m = mean(values);
    double total = 0;
    for (double value : values) {
        total += (value - m) * (value - m);
    }
    return total / values.size();
}

double largest(const std::vector<double>& values) {
    double result = values[0];
    for (size_t i = 1; i < values.size(); i++) {
        if (values[i] > result) {
            result = values[i];
        }
    }
    return result;
}

bool contains(const std::vector<double>& values, double wanted) {
    for (double value : values) {
        if (value == wanted) {
            return true;
        }
    }
    return false;
}

int count_above(const std::vector<double>& values, double limit) {
    int n = 0;
    for (double value : values) {
        if (value > limit) {
            n++;
        }
    }
    return n;
}

std::vector<double> normalized(const std::vector<double>& values) {
    std::vector<double> result;
    double top = largest(values);
    for (double value : values) {
        result.push_back(value / top);
    }
    return result;
}

std::vector<double> without_outliers(const std::vector<double>& values) {
    double m = mean(values);
    double limit = 3.0 * std::sqrt(variance(values));
    std::vector<double> kept;
    for (double value : values) {
        if (std::abs(value - m) <= limit) {
            kept.push_back(value);
        }
    }
    return kept;
}

std::string verdict(double value, double limit) {
    if (value > limit) {
        return "slow";
    } else {
        return "fine";
    }
}

}  // namespace stats
