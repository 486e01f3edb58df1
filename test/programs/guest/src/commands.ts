/** The command `tandem dice`: prints tasks, and what the reward pays for an answer. */
import type { CommandEntry } from 'tandem-rl/command'

export const commands: readonly CommandEntry[] = [
  {
    name: 'dice',
    summary: 'Print throws of two dice.',
    group: 'Play:',
    examples: ['tandem dice 3'],
    load: async () => {
      const [{ keyFromSeed, orThrow, TE }, { Command, CommandError, integerBetween }, { diceTasks }] =
        await Promise.all([import('tandem-rl'), import('tandem-rl/command'), import('./env.js')])
      return new Command('dice').argument('<count>', 'how many', integerBetween(1)).action(async (count: number) => {
        if (count > 100) throw new CommandError('at most 100 throws')
        const tasks = diceTasks(keyFromSeed(1))
        for (let i = 0; i < count; i++) console.log((await orThrow(TE.fromEither(tasks.at(i)))).query)
      })
    },
  },
]
