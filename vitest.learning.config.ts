import { defineConfig } from 'vitest/config'
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

/**
 * The long stage: commands in processes of their own, programs of the guide, recipes, learning with
 * the shipped model, kill and resume at full size, and the search for leaks.
 */
export default defineConfig({
  test: {
    include: LONG_STAGE,
    exclude: IS_SHORT ? [...LONG, ...SOAKS, ...BUNDLERS] : [],
    globalSetup: 'test/kit/compiledFolders.ts',
    setupFiles: ['test/kit/setup.ts'],
    env: { FC_SEED: '20261121' },
    pool: 'forks',
    maxWorkers: IS_SHORT ? 2 : 1,
    testTimeout: 1_800_000,
    hookTimeout: 1_800_000,
    expect: { poll: { timeout: 60_000 } },
  },
})
