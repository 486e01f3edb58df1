/**
 * Trains agents whose packages are too large for a development dependency, and prints the reward
 * and the log-prob gap of each step.
 *
 * `npm run verify -- agents FOLDER [mastra | claudeAgentSdk] [STEPS] [GROUP]`, after installing
 * `@mastra/core @ai-sdk/openai-compatible@2 @anthropic-ai/claude-agent-sdk zod@4` in FOLDER.
 */
import { copyFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { capture } from '@tandem-rl/serve'
import { selectBackend } from '@tandem-rl/tfjs-onnxruntime'
import { defineRun } from '../../src/run/define/defineRun.js'
import { grpoParts } from '../../src/run/define/grpoParts.js'
import { policySettings } from '../../src/run/parts/settings.js'
import { train } from '../../src/run/train/train.js'
import { lookupModel, lookupTasks } from '../../test/kit/ownAgents/model.js'
import { codeOf } from '../../test/kit/ownAgents/table.mjs'

/** Largest difference of log-probabilities between sampler and trainer. */
const LIMIT = 3e-5

type Ask = (question: string, baseURL: string, codeOf: (question: string) => string) => Promise<string>

/** The name under which the model knows the tool, by agent. */
const TOOLS: Readonly<Record<string, string>> = { mastra: 'lookup', claudeAgentSdk: 'mcp__desk__lookup' }

const [folder, name = 'mastra', steps = '20', group = '8'] = process.argv.slice(2)
const tool = TOOLS[name]
if (folder === undefined || tool === undefined) {
  console.error(`expected a folder with the packages, and one of ${Object.keys(TOOLS).join(', ')}`)
  process.exit(2)
}
const file = join(resolve(folder), 'installed.mjs')
copyFileSync('test/kit/ownAgents/installed.mjs', file)
const agents = (await import(pathToFileURL(file).href)) as Readonly<Record<string, Ask>>

await selectBackend({ threads: 1 })
const settings = policySettings.parse({
  ...{ steps: Number(steps), tasks: { prompts: 4, group: Number(group) }, sampling: { maxNewTokens: 24 } },
  ...{ learner: { learningRate: 1e-3 }, keep: { evalEvery: Number(steps), evalTasks: 4 } },
})
const run = await defineRun(
  grpoParts(settings, {
    model: await lookupModel(tool),
    agent: capture({
      ...{ name, maxConcurrent: 4, timeoutMs: 300_000 },
      run: ({ query }, { baseUrl }) => agents[name]!(query, baseUrl, codeOf),
    }),
    tasks: lookupTasks,
    reward: ({ prediction, answer }) => (prediction === answer ? 1 : 0),
    onFailure: (failure) => console.error(JSON.stringify(failure)),
  }),
)
let largest = 0
for await (const event of train(run, { steps: settings.steps, every: { evaluate: settings.steps } })) {
  if (event.type !== 'step') continue
  const gap = event.update.maxLogProbGap ?? Number.NaN
  largest = Math.max(largest, gap)
  console.log(
    `step ${event.step}: reward ${event.reward?.toFixed(3)}, calls ${event.toolCalls}, gap ${gap.toExponential(1)}, ${JSON.stringify(event.metrics)}`,
  )
}
console.log(`${name}: largest gap ${largest.toExponential(1)}, limit ${LIMIT.toExponential(1)}`)
process.exit(largest <= LIMIT ? 0 : 1)
