// Plane geometry for the floor plan editor. Lengths are in metres.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <stdexcept>
#include <utility>
#include <vector>

namespace plan {

struct Point {
    double x = 0;
    double y = 0;
};

inline double distance(const Point& a, const Point& b) {
    return std::hypot(b.x - a.x, b.y - a.y);
}

/// A rectangle parallel to the axes.
class Rect {
public:
    Rect(Point low, Point high) : low_(low), high_(high) {}

    double width() const { return high_.x - low_.x; }
    double height() const { return high_.y - low_.y; }

    Point center() {
        return {(low_.x + high_.x) / 2, (low_.y + high_.y) / 2};
    }

    bool contains(const Point& p) const {
        return p.x >= low_.x && p.x <= high_.x && p.y >= low_.y && p.y <= high_.y;
    }

    /// Moves every side outwards.
    void grow(double margin) {
        low_.x -= margin;
        low_.y -= margin;
        high_.x += margin;
        high_.y += margin;
    }

private:
    Point low_;
    Point high_;
};

/// A closed outline: the last point is joined to the first.
class Polygon {
public:
    explicit Polygon(std::vector<Point> points) : points_(std::move(points)) {}

    const std::vector<Point>& points() const { return points_; }

    double perimeter() const {
        double total = 0;
        for (std::size_t i = 0; i < points_.size(); i++) {
            total += distance(points_[i], points_[(i + 1) % points_.size()]);
        }
        return total;
    }

    /// The shoelace formula, whichever way round the points go.
    double area() const {
        double twice = 0;
        for (std::size_t i = 0; i < points_.size(); i++) {
            const Point& a = points_[i];
            const Point& b = points_[(i + 1) % points_.size()];
            twice += a.x * b.y - b.x * a.y;
        }
        return std::abs(twice) / 2;
    }

    Rect bounds() const {
        Point low = points_[0];
        Point high = points_[0];
        for (const Point& p : points_) {
            low = {std::min(low.x, p.x), std::min(low.y, p.y)};
            high = {std::max(high.x, p.x), std::max(high.y, p.y)};
        }
        return Rect(low, high);
    }

    void translate(double dx, double dy) {
        for (auto it = points_.begin(); it != points_.end(); ++it) {
            it->x += dx;
            it->y += dy;
        }
    }

private:
    std::vector<Point> points_;
};

bool all_inside(const std::vector<Point>& points, const Rect& rect) {
    for (const Point& p : points) {
        if (!rect.contains(p)) {
            return false;
        }
    }
    return true;
}

}  // namespace plan
