/** The tasks of the pages: word problems, and self-play in Kuhn poker. */
import type { AnyRun } from 'tandem-rl'
import { recipe as kuhnPoker } from '../../recipes/kuhnPoker.js'
import type { trainOptionsOf } from '../../src/run/define/choices.js'
import type { Choices } from './messages.js'
import { pageRun, settingsOf } from './run.js'

/** A run that is ready to start. */
interface PreparedRun {
  readonly settings: Parameters<typeof trainOptionsOf>[0]
  readonly build: () => Promise<AnyRun>
}

export interface PageTask {
  /** The recipe that `tandem eval` finds in the saved run. */
  readonly recipe: string
  /** The run folder in the browser's files. */
  readonly folder: string
  readonly prepare: (choices: Choices) => PreparedRun
}

const wordProblems: PageTask = {
  recipe: 'wordProblems',
  folder: 'runs/page',
  prepare: (choices) => {
    const settings = settingsOf(choices)
    return { settings, build: () => pageRun(settings, () => choices.reward) }
  },
}

const poker: PageTask = {
  recipe: 'kuhnPoker',
  folder: 'runs/poker',
  prepare: ({ seed, steps, settings: changed }) => {
    const settings = kuhnPoker.settings.parse({ keep: { evalEvery: 10, checkpointEvery: 25 }, ...changed, seed, steps })
    return { settings, build: async () => kuhnPoker.build(settings, {}) }
  },
}

/** Returns a task by its name in the address of the worker. */
export const taskOf = (name: string | null): PageTask => (name === 'kuhnPoker' ? poker : wordProblems)
