/** The page: controls, curves and completions. The worker does everything else. */
import { chart } from '../../packages/view/assets/charts.js'
import { fill, h } from '../../packages/view/assets/dom.js'
import { duration, number, percent } from '../../packages/view/assets/format.js'
import { DEFAULT_REWARD, problemOf, VARIABLES } from './reward.js'

const at = (id) => document.getElementById(id)

/** The display of each task: its score, and the steps of a run. The page names its task. */
const TASKS = {
  wordProblems: {
    title: 'Held-out accuracy',
    score: 'held-out accuracy',
    show: percent,
    start: 'Starting',
    query: (text) => text,
  },
  kuhnPoker: {
    title: 'NashConv (0 is an equilibrium)',
    score: 'NashConv',
    show: number,
    start: 'Making the start model',
    query: () => 'One decision', // the query of a game is its deal, as JSON
  },
}

const taskName = document.body.dataset.task
const task = TASKS[taskName]

/** What the page shows. `state`: loading, idle, paused, training, pausing, or failed. */
const view = { state: 'loading', step: 0, steps: 40, engine: '', startedAt: 0, from: 0, last: '', settings: {} }

/** The points of the curves. */
const points = { steps: [], reward: [], length: [], evaluated: [], accuracy: [] }

const curveOf = (title, label, color) =>
  chart({
    ...{ title, steps: [], height: 140, signal: new AbortController().signal },
    curves: [{ label, values: [], color }],
  })

const charts = {
  accuracy: curveOf(task.title, task.score, '--c0'),
  reward: curveOf('Mean reward', 'reward', '--c1'),
  length: curveOf('Seconds per step', 'seconds', '--c2'),
}
fill(at('curves'), ...Object.values(charts).map(({ element }) => element))

const drawCurves = () => {
  const draw = (each, steps, label, values, color) => each.update({ steps, curves: [{ label, values, color }] })
  draw(charts.accuracy, [...points.evaluated], task.score, [...points.accuracy], '--c0')
  draw(charts.reward, [...points.steps], 'reward', [...points.reward], '--c1')
  draw(charts.length, [...points.steps], 'seconds', [...points.length], '--c2')
}

const clearCurves = () => {
  for (const list of Object.values(points)) list.length = 0
  drawCurves()
}

const [seed, steps, device] = ['seed', 'steps', 'device'].map(at)

/** The field of the reward, which only word problems have. */
const reward = at('reward')

const showState = () => {
  const { state } = view
  const isIdle = state === 'idle' || state === 'paused'
  at('start').disabled = !isIdle || (reward !== null && problemOf(reward.value) !== null)
  at('start').textContent = state === 'paused' ? 'Resume' : 'Start'
  at('pause').disabled = state !== 'training'
  at('download').disabled = !isIdle || view.step === 0
  seed.disabled = steps.disabled = state !== 'idle'
  device.disabled = !isIdle && state !== 'failed'
  if (reward !== null) reward.disabled = !isIdle
  at('progress').max = view.steps
  at('progress').value = view.step
}

const say = (text) => {
  at('status').textContent = text
}

const secondsLeft = () => {
  const done = view.step - view.from
  return done === 0 ? null : ((performance.now() - view.startedAt) / 1000 / done) * (view.steps - view.step)
}

const onStep = (event) => {
  view.step = event.step
  points.steps.push(event.step)
  points.reward.push(event.reward)
  points.length.push(Object.values(event.seconds).reduce((sum, part) => sum + part, 0))
}

const onEvaluation = (event) => {
  const accuracy = event.scores[event.score]
  points.evaluated.push(event.step)
  points.accuracy.push(accuracy)
  view.last = `, ${task.score} ${task.show(accuracy)}`
}

const progressText = () => {
  const left = secondsLeft()
  const time = left === null ? '' : `, about ${duration(left)} left`
  return `Step ${view.step} of ${view.steps}${view.last}${time}`
}

const sampleView = ({ query, tokens, logProbs, reward: value }) =>
  h(
    'article',
    { class: 'sample' },
    h('p', {}, task.query(query)),
    h(
      'p',
      { class: 'tokens' },
      tokens.map((token, i) => h('span', { style: { '--doubt': String(1 - Math.exp(logProbs[i] ?? 0)) } }, token)),
    ),
    h('p', { class: 'muted small' }, `reward ${number(value)}`),
  )

const onEvent = (event) => {
  if (event.type === 'step') onStep(event)
  else if (event.type === 'evaluation') onEvaluation(event)
  else if (event.type === 'samples') fill(at('samples'), ...event.samples.slice(0, 4).map(sampleView))
  else if (event.type === 'evaluating')
    return say(`Evaluating at step ${event.step}: ${event.done} of ${event.tasks} tasks`)
  else return
  drawCurves()
  showState()
  say(progressText())
}

const onReady = ({ engine, threads, saved }) => {
  view.engine = `${engine}, ${threads} ${threads === 1 ? 'thread' : 'threads'}`
  view.state = 'idle'
  say(`Ready: ${view.engine}`)
  if (saved !== null && saved.step < saved.steps) {
    view.state = 'paused'
    seed.value = saved.seed
    steps.value = saved.steps
    if (reward !== null) reward.value = saved.reward
    Object.assign(view, { steps: saved.steps, settings: saved.settings })
    for (const event of saved.events) onEvent(event)
    view.step = saved.step
    say(`A run is saved at step ${saved.step} of ${saved.steps}`)
  }
  showState()
}

const save = ({ name, blob }) => {
  const href = URL.createObjectURL(blob)
  h('a', { href, download: name }).click()
  setTimeout(() => URL.revokeObjectURL(href), 60_000)
}

const onStopped = ({ status }) => {
  view.state = status === 'paused' && view.step < view.steps ? 'paused' : 'idle'
  say(`${status === 'paused' ? 'Paused' : 'Finished'} at step ${view.step} of ${view.steps}${view.last}`)
  showState()
}

const onFailed = ({ message }) => {
  view.state = 'failed'
  say(`Failed: ${message}`)
  showState()
}

const HANDLERS = {
  ready: onReady,
  event: ({ event }) => onEvent(event),
  stopped: onStopped,
  file: save,
  failed: onFailed,
}

const query = new URLSearchParams(location.search)
const options = { task: taskName, device: query.get('device') ?? 'cpu', threads: query.get('threads') ?? '' }
const worker = new Worker(`worker.js?${new URLSearchParams(options)}`, { type: 'module' })
worker.onmessage = ({ data }) => HANDLERS[data.type](data)
worker.onerror = () => onFailed({ message: 'the worker could not be loaded' })

const start = (event) => {
  event.preventDefault()
  const existing = view.state === 'paused' ? 'resume' : 'replace'
  if (existing === 'replace') {
    clearCurves()
    Object.assign(view, { step: 0, last: '' })
  }
  Object.assign(view, { state: 'training', steps: Number(steps.value), from: view.step, startedAt: performance.now() })
  const choices = { seed: Number(seed.value), steps: view.steps, reward: reward?.value ?? '', settings: view.settings }
  worker.postMessage({ type: 'start', choices, existing })
  say(task.start)
  showState()
}

at('controls').addEventListener('submit', start)
at('pause').addEventListener('click', () => {
  view.state = 'pausing'
  worker.postMessage({ type: 'pause' })
  say('Finishing this step, then saving')
  showState()
})
at('download').addEventListener('click', () => worker.postMessage({ type: 'download' }))
device.value = query.get('device') === 'webgpu' ? 'webgpu' : 'cpu'
device.addEventListener('change', () => {
  query.set('device', device.value)
  location.search = query
})
try {
  view.settings = JSON.parse(query.get('settings') ?? '{}')
} catch {
  at('address-problem').textContent = 'The settings in the address are not JSON: the defaults are used'
}

const showReward = () => {
  reward.value = DEFAULT_REWARD
  reward.addEventListener('input', () => {
    at('reward-problem').textContent = problemOf(reward.value) ?? ''
    showState()
  })
  const names = Object.entries(VARIABLES).map(([name, meaning], i) => [
    i === 0 ? '' : ', ',
    h('code', {}, name),
    ` (${meaning})`,
  ])
  fill(at('reward-help'), 'An expression of ', names)
}

if (reward !== null) showReward()
showState()
