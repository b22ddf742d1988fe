# modified_in_place/optimizer_step
import torch
import torch.nn as nn
import torch.optim as optim
from torch.distributions import Categorical


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.shared = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU())
        self.actor = nn.Linear(16, 2)
        self.critic = nn.Linear(16, 1)

    def forward(self, s):
        h = self.shared(s)
        return torch.softmax(self.actor(h), -1), self.critic(h)


class Agent:
    def __init__(self):
        self.net = ActorCritic()
        self.actor_opt = optim.Adam(self.net.parameters(), lr=1e-3)
        self.critic_opt = optim.Adam(self.net.parameters(), lr=1e-3)

    def learn(self, state, reward):
        probs, value = self.net(state)
        dist = Categorical(probs)
        action = dist.sample()
        advantage = reward - value
        critic_loss = advantage.pow(2).mean()
        actor_loss = -(dist.log_prob(action) * advantage.detach()).mean()
        self.critic_opt.zero_grad()
        critic_loss.backward(retain_graph=True)
        self.critic_opt.step()  # edited
        self.actor_opt.zero_grad()
        actor_loss.backward()  # needed
        self.actor_opt.step()


agent = Agent()
agent.learn(torch.randn(6, 4), torch.randn(6, 1))
