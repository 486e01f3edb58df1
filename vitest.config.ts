import { defineConfig } from 'vitest/config'
import { SOURCES, SOURCES_ENV } from './test/kit/sources.js'
import { LONG_STAGE } from './test/kit/stages.js'

/** One seed for every property test: CI sets it, and a failure prints it. */
const seed = process.env.FC_SEED ?? '20261121'

/** Folders of the long stage, `npm run learning`, and of `npm run verify -- engines`. */
const EXCLUDED = [...LONG_STAGE, 'test/engines/**', 'node_modules/**']

/** Tests that a process must be new for: what tfjs has profiled before shows in what it profiles next. */
const NEW_PROCESS = ['packages/tfjs-onnxruntime/test/onnxruntime/reading.test.ts']

/** Folders whose tests leave a process as they found it: their files take turns in one, and most of the modules are loaded once. */
const TIDY = [
  ...['agents', 'backends', 'bench', 'collectors', 'conformance', 'data', 'docs', 'envs'],
  ...['fuzz', 'live', 'modules', 'objectives', 'run'],
].map((name) => `test/${name}/**/*.test.ts`)

/** Limits are for what hangs, on a machine that is much slower and busier than this one: no test is to be ended by them while it works. */
export default defineConfig({
  ...SOURCES,
  test: {
    globalSetup: 'test/kit/compiledFolders.ts',
    setupFiles: ['test/kit/setup.ts'],
    env: { FC_SEED: seed, ...SOURCES_ENV },
    pool: 'forks',
    maxWorkers: 2,
    testTimeout: 300_000,
    hookTimeout: 300_000,
    expect: { poll: { timeout: 60_000 } },
    projects: [
      {
        extends: true,
        test: {
          name: 'tidy',
          include: [...TIDY, 'test/*.test.ts', 'packages/*/test/**/*.test.ts'],
          exclude: [...NEW_PROCESS, ...LONG_STAGE],
          isolate: false,
        },
      },
      { extends: true, test: { name: 'new process', include: NEW_PROCESS } },
      {
        extends: true,
        test: {
          name: 'isolated',
          include: ['test/**/*.test.ts'],
          exclude: [...EXCLUDED, ...TIDY, 'test/*.test.ts'],
          // This is `npm run typecheck`, and tells the types of the tests one by one: an error in any file of the project fails the run.
          typecheck: {
            enabled: true,
            include: ['test/types/**/*.test-d.ts'],
            tsconfig: './tsconfig.json',
            checker: './node_modules/typescript-7/bin/tsc',
          },
        },
      },
    ],
  },
})
