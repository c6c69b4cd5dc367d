"""Crowd animation bake: dual-quaternion skinning of one character mesh for a crowd of agents with their own clips.

Per frame: sample the clips (nlerp between key frames), forward kinematics down the skeleton, blend the bones' dual
quaternions per vertex, deform positions and normals, write bounds for the culling cache.
"""

import math
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

N_BONES = 52
N_VERTS = 6000
INFLUENCES = 4
CROWD = 24
N_CLIPS = 6
KEYS = 16
FRAMES = 180


def qmul(a, b):
    aw, ax, ay, az = a.unbind(-1)
    bw, bx, by, bz = b.unbind(-1)
    return torch.stack(
        [
            aw * bw - ax * bx - ay * by - az * bz,
            aw * bx + ax * bw + ay * bz - az * by,
            aw * by - ax * bz + ay * bw + az * bx,
            aw * bz + ax * by - ay * bx + az * bw,
        ],
        dim=-1,
    )


def qrot(q, v):
    w, u = q[..., :1], q[..., 1:]
    t = 2.0 * torch.linalg.cross(u.expand_as(v), v)
    return v + w * t + torch.linalg.cross(u.expand_as(t), t)


def qconj(q):
    return torch.cat([q[..., :1], -q[..., 1:]], dim=-1)


def axis_angle(axis, angle):
    half = 0.5 * angle[..., None]
    return torch.cat([half.cos(), F.normalize(axis, dim=-1) * half.sin()], dim=-1)


def make_skeleton(gen):
    parents = [-1]
    for b in range(1, N_BONES):
        if b % 9 == 0:
            parents.append(int(torch.randint(0, min(b, 4), (1,), generator=gen)))  # start a limb at the spine
        else:
            parents.append(b - 1)
    offsets = 0.12 * torch.randn(N_BONES, 3, generator=gen) + torch.tensor([0.0, 0.08, 0.0])
    offsets[0] = torch.tensor([0.0, 1.0, 0.0])
    return parents, offsets


class SkinnedCharacter(nn.Module):
    def __init__(self, gen):
        super().__init__()
        self.parents, offsets = make_skeleton(gen)
        self.register_buffer("offsets", offsets)
        rest = torch.zeros(N_BONES, 3)
        for b, p in enumerate(self.parents):
            rest[b] = offsets[b] + (rest[p] if p >= 0 else 0.0)
        self.register_buffer("rest", rest)
        home = torch.randint(0, N_BONES, (N_VERTS,), generator=gen)
        verts = rest[home] + 0.07 * torch.randn(N_VERTS, 3, generator=gen)
        dist = torch.cdist(verts, rest)
        near, idx = dist.topk(INFLUENCES, largest=False)
        self.register_buffer("verts", verts)
        self.register_buffer("normals", F.normalize(verts - rest[home], dim=-1))
        self.register_buffer("bone_idx", idx)
        self.register_buffer("weights", torch.softmax(-near / 0.04, dim=-1))
        # clips: [clip, key, bone] rotations, smooth in time because a few harmonics make them
        t = torch.linspace(0, 2 * math.pi, KEYS + 1)[:-1]
        amp = 0.5 * torch.randn(N_CLIPS, 1, N_BONES, generator=gen)
        ph = 6.28 * torch.rand(N_CLIPS, 1, N_BONES, generator=gen)
        axis = torch.randn(N_CLIPS, 1, N_BONES, 3, generator=gen).expand(-1, KEYS, -1, -1)
        self.register_buffer("clips", axis_angle(axis, amp * torch.sin(t[None, :, None] + ph)))

    def sample_clips(self, clip_id, time_in_keys):
        k0 = time_in_keys.floor().long()
        a = (time_in_keys - k0)[:, None, None]
        q0 = self.clips[clip_id, k0 % KEYS]
        q1 = self.clips[clip_id, (k0 + 1) % KEYS]
        q1 = torch.where((q0 * q1).sum(-1, keepdim=True) < 0, -q1, q1)
        return F.normalize((1 - a) * q0 + a * q1, dim=-1)

    def forward_kinematics(self, local_rot, root_pos, root_rot):
        rot, pos = [], []
        for b, p in enumerate(self.parents):
            off = self.offsets[b].expand(local_rot.shape[0], 3)
            if p < 0:
                rot.append(qmul(root_rot, local_rot[:, b]))
                pos.append(root_pos + qrot(root_rot, off))
            else:
                rot.append(qmul(rot[p], local_rot[:, b]))
                pos.append(pos[p] + qrot(rot[p], off))
        return torch.stack(rot, dim=1), torch.stack(pos, dim=1)

    def forward(self, clip_id, time_in_keys, root_pos, root_rot):
        local = self.sample_clips(clip_id, time_in_keys)
        rot, pos = self.forward_kinematics(local, root_pos, root_rot)
        # skinning transform: take a rest-pose vertex to the posed bone
        trans = pos - qrot(rot, self.rest.expand_as(pos))
        dual = 0.5 * qmul(F.pad(trans, (1, 0)), rot)
        dq = torch.cat([rot, dual], dim=-1)  # [crowd, bones, 8]

        g = dq[:, self.bone_idx]  # [crowd, verts, 4, 8]
        sign = torch.where((g[..., :4] * g[..., :1, :4]).sum(-1) < 0, -1.0, 1.0)
        w = (self.weights * sign).unsqueeze(-1)
        blend = (w * g).sum(dim=2)
        real, dual = blend[..., :4], blend[..., 4:]
        inv = 1.0 / real.norm(dim=-1, keepdim=True)
        real, dual = real * inv, dual * inv
        t = 2.0 * qmul(dual, qconj(real))[..., 1:]
        verts = qrot(real, self.verts.expand(len(clip_id), -1, -1)) + t
        normals = qrot(real, self.normals.expand(len(clip_id), -1, -1))
        return verts, normals, verts.amin(dim=1), verts.amax(dim=1)


@torch.no_grad()
def main():
    gen = torch.Generator().manual_seed(8)
    character = SkinnedCharacter(gen)
    character.compile()
    clip = torch.randint(0, N_CLIPS, (CROWD,), generator=gen)
    phase = KEYS * torch.rand(CROWD, generator=gen)
    speed = 0.2 + 0.2 * torch.rand(CROWD, generator=gen)
    heading = 6.28 * torch.rand(CROWD, generator=gen)
    where = 20.0 * torch.rand(CROWD, 3, generator=gen) * torch.tensor([1.0, 0.0, 1.0])
    up = torch.tensor([0.0, 1.0, 0.0]).expand(CROWD, 3)

    start = time.time()
    lit, lo_all, hi_all = 0.0, [], []
    sun = F.normalize(torch.tensor([0.3, 0.8, 0.5]), dim=0)
    for frame in range(FRAMES):
        heading = heading + 0.02 * torch.sin(0.1 * frame + phase)
        where = where + 0.03 * torch.stack([heading.cos(), torch.zeros(CROWD), heading.sin()], dim=-1)
        verts, normals, lo, hi = character(clip, phase + speed * frame, where, axis_angle(up, -heading))
        lo_all.append(lo)
        hi_all.append(hi)
        lit += (normals @ sun).clamp(min=0).mean().item()
    size = torch.stack(hi_all) - torch.stack(lo_all)
    print(f"baked {FRAMES} frames x {CROWD} agents in {time.time() - start:.2f} s")
    print(
        f"mean lambert {lit / FRAMES:.4f}, unit normals {bool((normals.norm(dim=-1) - 1).abs().max() < 1e-3)}"
    )
    print("mean bounds (m):", [round(v, 3) for v in size.mean(dim=(0, 1)).tolist()])


if __name__ == "__main__":
    main()
