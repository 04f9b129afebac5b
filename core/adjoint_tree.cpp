#include "adjoint_tree.hpp"

#include <Eigen/LU>

namespace supple {

TreeTangent::TreeTangent(const System& system) : system_(system) {
    covers_ = system.springs.empty();
    for (const Row& row : system.rows) covers_ = covers_ && row.of.axes.size() == 1 && row.stop == 0;
    for (const Joint& joint : system.joints) covers_ = covers_ && joint.outer >= 0;
    if (!covers_) return;
    body_node_.assign(system.bodies(), -1);
    for (int b : system.order) {
        const int j = system.holder(b);
        const Joint& joint = system.joints[j];
        const bool forwards = joint.child == b;
        const int inner = forwards ? joint.parent : joint.child, count = static_cast<int>(joint.blocks.size());
        int last = inner < 0 ? -1 : body_node_[inner];
        for (int k = 0; k < count; ++k) {
            Node node;
            node.parent = last;
            node.joint = j;
            node.block = forwards ? k : count - 1 - k;
            node.sign = forwards ? 1 : -1;
            node.size = joint.blocks[node.block];
            node.axis = joint.first;
            for (int m = 0; m < node.block; ++m) node.axis += joint.blocks[m];
            last = static_cast<int>(nodes_.size());
            nodes_.push_back(node);
        }
        body_node_[b] = last;
    }
    to_body_.resize(system.bodies());
    rho_.resize(nodes_.size());
}

// Screws in world axes about a point near the mechanism.
void TreeTangent::place_screws(const TapeRecord& record) {
    const Vec3 origin = record.H[0].p;
    for (int b = 0; b < system_.bodies(); ++b) {
        const Mat3 Rt = record.H[b].R.transpose();
        to_body_[b] = blocks(Rt, -(Rt * skew(record.H[b].p - origin)), Mat3::Zero(), Rt);
    }
    for (Node& node : nodes_) {
        const Joint& joint = system_.joints[node.joint];
        Pose end = joint.child < 0 ? joint.pose_child : record.H[joint.child] * joint.pose_child;
        int axis = joint.first + joint.count;
        for (std::size_t k = joint.blocks.size(); static_cast<int>(--k) > node.block;) {  // back to the end of the block
            Vec6 xi = Vec6::Zero();
            for (int i = 0; i < joint.blocks[k]; ++i) {
                --axis;
                xi -= record.q[axis] * system_.twists[axis];
            }
            end = end * exp(xi);
        }
        end.p -= origin;
        for (int i = 0; i < node.size; ++i) node.screw[i] = node.sign * transform_twist(end, system_.twists[node.axis + i]);
    }
}

bool TreeTangent::factorise(const TapeRecord& record, const std::vector<Body>& bodies, const std::vector<Mat3>& slopes) {
    axis_row_.assign(system_.axes(), -1);
    for (std::size_t r = 0; r < system_.rows.size(); ++r) {
        if (!record.active[r]) continue;
        int& row = axis_row_[system_.rows[r].of.axes[0]];
        if (row >= 0) return false;
        row = static_cast<int>(r);
    }
    place_screws(record);
    for (Node& node : nodes_) {
        node.P.setZero();
        node.W.setZero();
        node.row = node.size == 1 ? axis_row_[node.axis] : -1;
    }
    for (int b = 0; b < system_.bodies(); ++b) {
        if (body_node_[b] < 0) continue;
        // W = E^T w; -dW = -E^T dw E eta + ad(eta)^T W
        Node& node = nodes_[body_node_[b]];
        const Mat6& E = to_body_[b];
        const Vec6 W = E.transpose() * bodies[b].wrench;
        const Mat3 f = skew(W.head<3>());
        node.P += blocks(Mat3::Zero(), f, f, skew(W.tail<3>())) - E.transpose() * Mat6(bodies[b].derivative * E);
        node.W += W;
    }
    for (std::size_t i = nodes_.size(); i-- > 0;) {
        Node& node = nodes_[i];
        Node* parent = node.parent < 0 ? nullptr : &nodes_[node.parent];
        if (parent) parent->W += node.W;
        Vec6 n[3];
        for (int a = 0; a < node.size; ++a) {
            n[a] = ad(node.screw[a]).transpose() * node.W;
            node.u[a] = node.P * node.screw[a];
            node.l[a] = node.P.transpose() * node.screw[a] + n[a];
        }
        if (node.row >= 0) {
            if (parent) parent->P += node.P;
            continue;
        }
        const Mat3& slope = slopes[node.axis];
        if (node.size == 1) {
            const double d = slope(0, 0) + node.screw[0].dot(node.u[0]);
            if (!(d > 0)) return false;
            node.inverse(0, 0) = 1 / d;
            if (parent) parent->P += node.P - Vec6(node.u[0] / d) * node.l[0].transpose();
            continue;
        }
        Mat3 d = slope;  // screws of a ball joint turn with its child
        for (int a = 0; a < 3; ++a)
            for (int c = 0; c < 3; ++c) d(a, c) += node.screw[a].dot(node.u[c]) + (node.sign > 0 ? n[a].dot(node.screw[c]) : 0.0);
        node.inverse = d.inverse();
        if (!node.inverse.allFinite()) return false;
        if (!parent) continue;
        parent->P += node.P;
        for (int a = 0; a < 3; ++a) {
            Vec6 share = Vec6::Zero();  // of l, by the a-th column of u
            for (int c = 0; c < 3; ++c) share += node.inverse(a, c) * node.l[c];
            parent->P -= node.u[a] * share.transpose();
        }
    }
    return true;
}

void TreeTangent::solve(const double* right, double* x, bool transposed, int columns) {
    const int n = system_.unknowns();
    for (int column = 0; column < columns; ++column, right += n, x += n) {
        for (Node& node : nodes_) node.p.setZero();
        for (int b = 0; b < system_.bodies(); ++b)
            if (body_node_[b] >= 0)
                nodes_[body_node_[b]].p -= to_body_[b].transpose() * Vec6(Eigen::Map<const Vec6>(right + system_.twist_row(b)));
        for (std::size_t i = nodes_.size(); i-- > 0;) {
            Node& node = nodes_[i];
            Node* parent = node.parent < 0 ? nullptr : &nodes_[node.parent];
            if (parent) parent->p += node.p;
            for (int a = 0; a < node.size; ++a) rho_[i][a] = node.screw[a].dot(node.p) - right[system_.axis_row(node.axis + a)];
            if (!parent) continue;
            const Vec6* through = transposed ? node.l : node.u;
            if (node.row >= 0) {  // the coordinate is prescribed; the transposed one vanishes
                const double moved = right[system_.row_row(node.row)] / system_.rows[node.row].of.coefficients[0];
                if (!transposed) parent->p += moved * node.u[0];
            } else if (node.size == 1) {
                parent->p -= (node.inverse(0, 0) * rho_[i][0]) * through[0];
            } else {
                const Vec3 scaled = transposed ? Vec3(node.inverse.transpose() * rho_[i]) : Vec3(node.inverse * rho_[i]);
                for (int a = 0; a < 3; ++a) parent->p -= scaled[a] * through[a];
            }
        }
        for (std::size_t i = 0; i < nodes_.size(); ++i) {
            Node& node = nodes_[i];
            const Vec6 before = node.parent < 0 ? Vec6(Vec6::Zero()) : nodes_[node.parent].eta;
            const Vec6* through = transposed ? node.u : node.l;
            Vec3 found = Vec3::Zero();
            for (int a = 0; a < node.size; ++a) found[a] = -(rho_[i][a] + through[a].dot(before));
            if (node.row >= 0) {
                const double coefficient = system_.rows[node.row].of.coefficients[0];
                if (transposed) x[system_.row_row(node.row)] = found[0] / coefficient;
                found[0] = transposed ? 0.0 : right[system_.row_row(node.row)] / coefficient;
            } else if (node.size == 1) {
                found[0] *= node.inverse(0, 0);
            } else {
                found = transposed ? Vec3(node.inverse.transpose() * found) : Vec3(node.inverse * found);
            }
            node.eta = before;
            for (int a = 0; a < node.size; ++a) {
                node.eta += found[a] * node.screw[a];
                x[system_.axis_row(node.axis + a)] = found[a];
            }
        }
        for (int b = 0; b < system_.bodies(); ++b) {
            const Vec6 eta = body_node_[b] < 0 ? Vec6(Vec6::Zero()) : nodes_[body_node_[b]].eta;
            Eigen::Map<Vec6>(x + system_.twist_row(b)) = to_body_[b] * eta;
        }
    }
}

}  // namespace supple
