import { defineConfig } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'
import { SOURCES, SOURCES_ENV } from './test/kit/sources.js'
import { LONG_STAGE } from './test/kit/stages.js'

/** As in CI: without what takes longest or is a variation of what others show, and two at a time. */
const IS_SHORT = process.env.LEARNING === 'short'

const LONG = [
  'algorithms',
  'calculator',
  'calculatorAgent',
  'chaos',
  'games',
  'ifEvalHostile',
  'init',
  'killResumeRecipes',
  'kills',
  'lora',
  'overlap',
  'ownAgent',
  'perfectible',
  'recipes',
  'remoteGrpo',
  'reverseText',
  'segments',
  'toolConversations',
].map((name) => `test/learning/${name}.test.ts`)

const SOAKS = ['test/soak/engine.test.ts', 'test/soak/serve.test.ts']

/** Three bundlers from npm: minutes of installation. */
const BUNDLERS = ['test/programs/bundlers.test.ts']

/** The files that take longest: one that starts last would run while nothing else is left. */
const LONGEST = [
  ...['programs/installed', 'programs/site', 'site/training', 'learning/grpo', 'page/safety'],
  ...['defaultBackend', 'programs/readme'],
].map((name) => `/test/${name}.test.ts`)

/** `LONGEST` in this order, then the others as vitest sorts them. */
class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId }: TestSpecification): number => {
      const place = LONGEST.findIndex((name) => moduleId.endsWith(name))
      return place < 0 ? LONGEST.length : place
    }
    return (await super.sort(files)).sort((one, other) => rank(one) - rank(other))
  }
}

/**
 * Tests that leave a process as they found it: in the short form, their files take turns in one,
 * and modules are loaded once.
 */
const TIDY = /^(test\/(cli|recipes|learning|run)|packages\/(\*|view)\/test)\//

/**
 * Every command with every resource, signal or recipe, hundreds of schedules, 32 MiB for every route,
 * and commands and pages whose parts other tests run.
 */
const MATRICES = [
  'packages/bench/test/bench.test.ts',
  'packages/cluster/test/workers/roles.prop.test.ts',
  'packages/serve/test/hugeBodies.test.ts',
  ...[
    ...['cli/exitCodes', 'cli/missingResources', 'cli/recipeTrust'],
    ...['cli/adapters', 'cli/calibrate', 'cli/profiling', 'cli/changedInputs', 'learning/killResume', 'site/training'],
  ].map((name) => `test/${name}.test.ts`),
]

const EXCLUDED = IS_SHORT ? [...LONG, ...SOAKS, ...BUNDLERS, ...MATRICES] : []

/**
 * The long stage: commands in processes of their own, programs of the guide, recipes, learning with
 * the shipped model, kill and resume at full size, and the search for leaks.
 */
export default defineConfig({
  ...SOURCES,
  test: {
    globalSetup: 'test/kit/compiledFolders.ts',
    setupFiles: ['test/kit/setup.ts'],
    env: { FC_SEED: '20261121', ...SOURCES_ENV },
    pool: 'forks',
    maxWorkers: IS_SHORT ? 2 : 1,
    sequence: { sequencer: LongestFirst },
    testTimeout: 1_800_000,
    hookTimeout: 1_800_000,
    expect: { poll: { timeout: 60_000 } },
    projects: [
      {
        extends: true,
        test: { name: 'isolated', include: LONG_STAGE.filter((path) => !TIDY.test(path)), exclude: EXCLUDED },
      },
      {
        extends: true,
        test: {
          name: 'tidy',
          include: LONG_STAGE.filter((path) => TIDY.test(path)),
          exclude: EXCLUDED,
          isolate: !IS_SHORT,
        },
      },
    ],
  },
})
