/**
 * For everybody who plays from the command line: `tandem` finds its command `arena` here.
 *
 * @module
 */
import type { CommandEntry } from 'tandem-rl/command'

export const commands: readonly CommandEntry[] = [
  {
    name: 'arena',
    summary: 'Play games between language models, search players, solved tables, random players and people.',
    group: 'Play:',
    examples: [
      'tandem arena --override agents.player_0.type=mcts num_episodes=20 parallel_episodes=2',
      'tandem arena games.yaml --override mode=llm_vs_llm agents.player_1.model=hf_gpt2 --out runs/games',
      'tandem arena --resume runs/games',
    ],
    load: async () => (await import('./commands/arena.js')).arenaCommand(),
  },
]
