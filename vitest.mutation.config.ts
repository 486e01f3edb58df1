import { defineConfig } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'
import { SOURCES, SOURCES_ENV } from './test/kit/sources.js'

/** Files of many samples: they come last, so that most mutants are found without them. */
const SLOW = /\.prop\.|[lL]aws/

/** Cheap files first: the run of a mutant ends with the first test that fails. */
class CheapFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId }: TestSpecification): number => (SLOW.test(moduleId) ? 1 : 0)
    return [...files].sort((a, b) => rank(a) - rank(b) || (a.moduleId < b.moduleId ? -1 : 1))
  }
}

/** For `npx stryker run`: the tests of TensorDicts alone, with few samples for each law, one fixed seed, and modules that stay loaded. */
export default defineConfig({
  ...SOURCES,
  test: {
    include: ['test/data/tensorDict/**/*.test.ts', 'test/data/tensorDictLaws*.test.ts'],
    globalSetup: 'test/kit/compiledFolders.ts',
    setupFiles: ['test/kit/setup.ts'],
    env: { FC_SEED: '20261121', FC_RUNS: '8', ...SOURCES_ENV },
    pool: 'threads',
    isolate: false,
    sequence: { sequencer: CheapFirst },
    testTimeout: 60_000,
  },
})
