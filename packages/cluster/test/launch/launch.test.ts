/** Jobs on a Ray cluster: metrics in logs of other trainers, and jobs followed in a run folder. */
import { readFileSync } from 'node:fs'
import { orThrow } from '@tandem-rl/base'
import { liveTimers } from '@tandem-rl/base/host'
import { liveFiles, liveLocks } from '@tandem-rl/host'
import { describe, expect, it } from 'vitest'
import { useTemporaryFolder } from '../../../../test/kit/runs.js'
import { createJobFolder, followJob, jobLogPath, readJobFolder } from '../../src/launch/jobFolder.js'
import { stepReader } from '../../src/launch/metricLines.js'
import { type RayJobsOptions, rayJobs } from '../../src/launch/rayJobs.js'

const temporary = useTemporaryFolder()

const stepsIn = (log: string) => {
  const reader = stepReader()
  return [...log.split('\n').map(reader.read), reader.end()].filter((step) => step !== null)
}

describe('the metrics in a log', () => {
  it('of verl', () => {
    const log = [
      '(TaskRunner pid=1) step:0 - val-core/gsm8k/reward/mean@1:np.float64(0.25)',
      '\u001b[36m(TaskRunner pid=1)\u001b[0m step:1 - actor/pg_loss:-0.0012 - critic/score/mean:0.5 - actor/lr:1e-06 - x:nan',
      'Training Progress: 1/10, global_step:7 - none',
    ]
    expect(stepsIn(log.join('\n'))).toEqual([
      { step: 0, metrics: { 'val-core/gsm8k/reward/mean@1': 0.25 } },
      { step: 1, metrics: { 'actor/pg_loss': -0.0012, 'critic/score/mean': 0.5, 'actor/lr': 1e-6 } },
    ])
  })

  it('of OpenRLHF', () => {
    const log =
      "(PPOTrainer pid=1) INFO 11-23 ppo_trainer.py:161] ✨ Global step 2: {'policy_loss': 0.01, 'reward': 0.4, 'kl': nan, 'timing/generation': 41.2}"
    expect(stepsIn(log)).toEqual([{ step: 2, metrics: { policy_loss: 0.01, reward: 0.4, 'timing/generation': 41.2 } }])
  })

  it('of NeMo-RL', () => {
    const log = [
      '========================= Step 1/100 =========================',
      '▶ Preparing batch...',
      '📊 Training Results:',
      '  • Loss: 0.0123',
      '  • Avg Reward: 0.5000',
      '  • Mean Generation Length: 128.5000',
      '⏱️  Timing:',
      '  • Total step time: 12.50s',
      '  • generation: 5.00s (40.0%)',
      '========================= Step 2/100 =========================',
      '  • Loss: 0.01',
    ]
    expect(stepsIn(log.join('\n'))).toEqual([
      {
        step: 1,
        metrics: { Loss: 0.0123, 'Avg Reward': 0.5, 'Mean Generation Length': 128.5, 'Total step time': 12.5 },
      },
      { step: 2, metrics: { Loss: 0.01 } },
    ])
  })

  it.each([
    ...['step:', 'step:a - b:1', 'step:1', 'Global step 1: {', 'Global step 1:', '= Step /1 =', '• ', ''],
    ' - '.repeat(300_000),
    `step:1${' - a:'.repeat(200_000)}`,
  ])('ignores other lines', (line) => {
    expect(stepsIn(line).flatMap(({ metrics }) => Object.keys(metrics))).toEqual([])
  })
})

const LOG = ['starting', 'step:1 - reward:0.2', 'step:2 - reward:0.4', 'the end'].join('\n')

/** Answers as Ray 2.60 gave them, for a job whose log grows with each look. */
const scripted = (end: 'SUCCEEDED' | 'FAILED', failures = 0) => {
  const sent: string[] = []
  let [looks, lost] = [0, 0]
  const send: NonNullable<RayJobsOptions['send']> = async (url, { method }) => {
    const { pathname } = new URL(url)
    sent.push(`${method} ${pathname}`)
    const reply = (body: object, status = 200) => ({ status, text: JSON.stringify(body) })
    if (pathname === '/api/jobs/') return reply({ job_id: 'a', submission_id: 'a' })
    if (pathname.endsWith('/nothing')) return { status: 404, text: 'Job nothing does not exist' }
    if (pathname.endsWith('/stop')) return reply({ stopped: looks < 4 })
    if (lost++ < failures) throw new TypeError('connect ECONNREFUSED')
    if (pathname.endsWith('/logs')) return reply({ logs: LOG.slice(0, LOG.length * Math.min(1, looks / 3)) })
    looks++
    const status = looks < 3 ? 'RUNNING' : end
    return reply({ type: 'SUBMISSION', submission_id: 'a', status, entrypoint: 'true', message: 'exit code 3' })
  }
  return { jobs: rayJobs({ url: 'http://head:8265/', send }), sent }
}

/** Timers that fire at once. */
const timers = { after: (_: number, fire: () => void) => liveTimers.after(0, fire) }
const world = { files: liveFiles, locks: liveLocks, timers }

describe('a job', () => {
  const job = { entrypoint: 'true', runtime_env: { env_vars: { SECRET: 'abc' }, pip: ['verl'] } }

  it('is followed into a run folder, twice with the same result', async () => {
    const folder = temporary('job')
    const { jobs, sent } = scripted('SUCCEEDED', 2)
    expect(orThrow(await jobs.submit(job, 'a')())).toBe('a')
    orThrow(await createJobFolder(liveFiles, folder, { url: jobs.url, id: 'a', job })())
    expect(await readJobFolder(liveFiles, folder)).toEqual({ url: 'http://head:8265', id: 'a' })
    expect(readFileSync(`${folder}/config.json`, 'utf8')).not.toContain('abc')
    const news: string[] = []
    const options = { folder, id: 'a', signal: new AbortController().signal }
    const ended = await followJob(jobs, { ...options, onEvent: ({ type }) => news.push(type) }, world)
    expect(ended?.status).toBe('SUCCEEDED')
    expect(news.filter((type) => type === 'waiting')).toHaveLength(2)
    const metrics = readFileSync(`${folder}/metrics.jsonl`, 'utf8')
    expect(
      metrics
        .split('\n')
        .slice(0, 2)
        .map((line) => JSON.parse(line)),
    ).toMatchObject([
      { type: 'step', step: 1, reward: 0.2 },
      { type: 'step', step: 2, reward: 0.4 },
    ])
    expect(readFileSync(jobLogPath(folder), 'utf8')).toBe(`${LOG}\n`)
    expect(sent[0]).toBe('POST /api/jobs/')
    await followJob(scripted('SUCCEEDED').jobs, { ...options, onEvent: () => undefined }, world)
    expect(readFileSync(`${folder}/metrics.jsonl`, 'utf8')).toBe(metrics)
  })

  it('that failed reports its message', async () => {
    const folder = temporary('failed')
    const { jobs } = scripted('FAILED')
    orThrow(await createJobFolder(liveFiles, folder, { url: jobs.url, id: 'a', job })())
    const options = { folder, id: 'a', signal: new AbortController().signal, onEvent: () => undefined }
    expect(await followJob(jobs, options, world)).toMatchObject({ status: 'FAILED', message: 'exit code 3' })
    expect(readFileSync(`${folder}/summary.json`, 'utf8')).toBe('{"status":"failed"}\n')
  })

  it('is left alone if the signal aborts', async () => {
    const folder = temporary('left')
    const { jobs } = scripted('SUCCEEDED')
    orThrow(await createJobFolder(liveFiles, folder, { url: jobs.url, id: 'a', job })())
    const abort = new AbortController()
    const onEvent = () => abort.abort()
    expect(await followJob(jobs, { folder, id: 'a', signal: abort.signal, onEvent }, world)).toBeNull()
    expect(orThrow(await jobs.stop('a')())).toBe(true)
  })

  it('that the cluster does not know is an error, and so is a cluster that never answers', async () => {
    const folder = temporary('nothing')
    const { jobs } = scripted('SUCCEEDED')
    orThrow(await createJobFolder(liveFiles, folder, { url: jobs.url, id: 'nothing', job })())
    const options = { folder, signal: new AbortController().signal, onEvent: () => undefined }
    await expect(followJob(jobs, { ...options, id: 'nothing' }, world)).rejects.toThrow(
      '404: Job nothing does not exist',
    )
    await expect(followJob(scripted('SUCCEEDED', 99).jobs, { ...options, id: 'a' }, world)).rejects.toThrow(
      'ECONNREFUSED',
    )
  })
})
