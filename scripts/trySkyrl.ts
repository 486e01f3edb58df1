/**
 * Checks SkyRL's Tinker server and trains on it:
 * `npx tsx scripts/trySkyrl.ts PYTHON_ENVIRONMENT MODEL OUT [STEPS]`.
 *
 * The environment has Python 3.12 and the packages `uv` and `skyrl[tinker,jax]`.
 * `makeTinkerModel.ts` makes a model. OUT receives the database and checkpoints of the server, its
 * log, and two runs of the same seed: one without an interruption, and one that is killed and
 * resumed. Prints the rewards, the largest gap of log-probabilities, and the largest difference of
 * the rewards of both runs.
 */
import { spawn } from 'node:child_process'
import { closeSync, existsSync, mkdirSync, openSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'

const PORT = 8711
const WAIT_SECONDS = 300
const url = `http://127.0.0.1:${PORT}`

const [environment, given, folder, steps = '14'] = process.argv.slice(2)
if (environment === undefined || given === undefined || folder === undefined)
  throw new RangeError('usage: npx tsx scripts/trySkyrl.ts PYTHON_ENVIRONMENT MODEL OUT [STEPS]')
const [python, model, out] = [resolve(environment), resolve(given), resolve(folder)]
mkdirSync(out, { recursive: true })

const startServer = () => {
  const log = openSync(join(out, 'server.log'), 'a')
  // Batches of fixed sizes, because JAX compiles the model for each shape.
  const settings = JSON.stringify({
    ...{ max_lora_adapters: 8, max_lora_rank: 32 },
    ...{ train_micro_batch_size: 16, sample_max_num_sequences: 32 },
  })
  const server = spawn(
    'uv',
    [
      ...['run', '--no-project', '--active', '-m', 'skyrl.tinker.api', '--base-model', model, '--backend', 'jax'],
      ...['--backend-config', settings, '--checkpoints-base', join(out, 'checkpoints')],
      ...['--database-url', `sqlite:///${join(out, 'tinker.db')}`, '--host', '127.0.0.1', '--port', String(PORT)],
    ],
    {
      ...{ cwd: out, stdio: ['ignore', log, log] },
      env: {
        ...process.env,
        ...{ VIRTUAL_ENV: python, PATH: `${join(python, 'bin')}:${process.env.PATH}` },
        ...{ JAX_COMPILATION_CACHE_DIR: join(out, 'compiled'), JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS: '0' },
        ...{ HF_HUB_OFFLINE: '1', UV_OFFLINE: '1', JAX_PLATFORMS: 'cpu' },
      },
    },
  )
  closeSync(log)
  return server
}

const isHealthy = async (): Promise<boolean> => {
  try {
    return (await fetch(`${url}/api/v1/healthz`, { signal: AbortSignal.timeout(5000) })).ok
  } catch {
    return false // not listening yet
  }
}

/** Runs a command of ours and throws if it fails. Kills it when the file has so many lines. */
const tandem = (args: readonly string[], kill?: { readonly file: string; readonly lines: number }): Promise<void> =>
  new Promise((done, fail) => {
    const command = ['--import', 'tsx', 'src/cli/main.ts', ...args]
    const running = spawn(process.execPath, command, { stdio: 'inherit' })
    const watch = setInterval(() => {
      if (kill !== undefined && linesOf(kill.file).length >= kill.lines) running.kill('SIGKILL')
    }, 200)
    running.once('exit', (code, signal) => {
      clearInterval(watch)
      const isDone = kill === undefined ? code === 0 : signal === 'SIGKILL'
      if (isDone) done()
      else fail(new Error(`tandem ${args[0]}: exit code ${code}`))
    })
  })

const linesOf = (file: string): readonly string[] =>
  existsSync(file) ? readFileSync(file, 'utf8').split('\n').slice(0, -1) : []

interface Step {
  readonly type: string
  readonly reward: number
  readonly update: { readonly maxLogProbGap: number }
}

const stepsOf = (name: string): readonly Step[] =>
  linesOf(join(out, name, 'metrics.jsonl'))
    .map((line) => JSON.parse(line) as Step) // a record of a run
    .filter(({ type }) => type === 'step')

const server = startServer()
try {
  const end = Date.now() + 1000 * WAIT_SECONDS
  while (!(await isHealthy())) {
    if (server.exitCode !== null || Date.now() > end) throw new Error(`no server: see ${join(out, 'server.log')}`)
    await pause(1000)
  }
  await tandem(['tinker', 'check', url, '--base-model', model])
  const remote = ['--learner', 'tinker', '--url', url, '--base-model', model]
  const train = (name: string): readonly string[] => [
    ...['train', './scripts/skyrlRecipe.ts', '--model', model, '--out', join(out, name), '--steps', steps, ...remote],
    ...['--lora-rank', '8', '--learning-rate', '0.0004', '--set', 'learner.maxGradNorm=off'],
    ...['--prompts', '8', '--eval-every', '100', '--eval-tasks', '32', '--checkpoint-every', '4', '--threads', '1'],
  ]
  await tandem(train('whole'))
  const killAt = 7 // lines: an evaluation and six steps
  await tandem(train('killed'), { file: join(out, 'killed', 'metrics.jsonl'), lines: killAt })
  await tandem(['train', '--resume', join(out, 'killed'), '--threads', '1', ...remote])
  const [whole, killed] = [stepsOf('whole'), stepsOf('killed')]
  const differences = whole.map(({ reward }, i) => Math.abs(reward - (killed[i]?.reward ?? Number.NaN)))
  const summary = {
    rewards: whole.map(({ reward }) => reward),
    gap: Math.max(...whole.map(({ update }) => update.maxLogProbGap)),
    steps: killed.length,
    difference: Math.max(...differences),
  }
  console.log(JSON.stringify(summary))
} finally {
  server.kill('SIGINT')
}
