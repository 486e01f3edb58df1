/** Overlapped training as a machine: an event in, the next state and what is to be done out. Nothing here waits, and nothing has an effect. */
import type { LiveTask, OverlapDrop, OverlapState } from './overlapState.js'

/** A share of failures is taken of as many tasks, if fewer have ended. */
const FEWEST_ENDED = 10

/** What happened. */
export type OverlapEvent =
  /** Nothing yet: to be told first. */
  | { readonly _tag: 'Begun' }
  /** A group is complete; `oldest` is the version that sampled its oldest token. */
  | { readonly _tag: 'Sampled'; readonly task: number; readonly oldest: number; readonly signal: 'yes' | 'no' }
  | { readonly _tag: 'Failed'; readonly task: number }
  /** The groups of the last `Train` were learned from. */
  | { readonly _tag: 'Trained' }
  /** Requests are sampled with a version from now on. */
  | { readonly _tag: 'Pushed'; readonly version: number }
  | { readonly _tag: 'Stopped' }

/** A group that is learned from, and how old it is then. */
export interface TrainedTask {
  readonly task: number
  /** Updates between its oldest token and the weights that learn from it. */
  readonly lag: number
}

/** What is to be done, in order. */
export type OverlapAction =
  | { readonly _tag: 'Sample'; readonly task: number }
  /** The work is called off. */
  | { readonly _tag: 'Cancel'; readonly task: number }
  /** The group is not wanted. */
  | { readonly _tag: 'Discard'; readonly task: number }
  | { readonly _tag: 'Train'; readonly tasks: readonly TrainedTask[] }
  | { readonly _tag: 'Push'; readonly version: number }

type Moved = readonly [state: OverlapState, actions: readonly OverlapAction[]]

const isTraining = ({ live }: OverlapState): boolean => live.some(({ stage }) => stage === 'training')

/** The version that learns from what is not learned from yet, at the earliest. */
const nextVersion = (state: OverlapState): number => state.version + (isTraining(state) ? 1 : 0)

const ageOf = (task: LiveTask): number => (task.stage === 'sampling' ? task.since : task.oldest)

/** The last versions that may learn from tasks that nobody learns from yet. */
const deadlines = ({ live, rules }: OverlapState, except: ReadonlySet<number> = new Set()): readonly number[] =>
  [...live]
    .filter(([task, { stage }]) => stage !== 'training' && !except.has(task))
    .map(([, task]) => ageOf(task) + rules.maxLag)

/** Whether steps from `first` on, of so many groups each, can meet all deadlines. */
const isInTime = (times: readonly number[], first: number, groups: number): boolean =>
  [...times].sort((a, b) => a - b).every((deadline, i) => i + 1 <= (deadline - first + 1) * groups)

const drop = (state: OverlapState, task: number, why: OverlapDrop): OverlapState => {
  const { trained, dropped } = state.counts
  return {
    ...state,
    live: state.live.delete(task),
    counts: { trained, dropped: { ...dropped, [why]: dropped[why] + 1 } },
  }
}

/** Too many failed. */
const isTooMuch = ({ counts: { trained, dropped }, rules }: OverlapState): boolean => {
  const ended = trained + dropped.stale + dropped.failed + dropped.filtered
  return dropped.failed > rules.maxFailureShare * Math.max(ended, FEWEST_ENDED)
}

const onSampled = (state: OverlapState, event: Extract<OverlapEvent, { readonly _tag: 'Sampled' }>): Moved => {
  const { task, oldest, signal } = event
  if (state.live.get(task)?.stage !== 'sampling') return [state, [{ _tag: 'Discard', task }]]
  if (signal === 'no' && state.filtered < state.rules.refills)
    return [{ ...drop(state, task, 'filtered'), filtered: state.filtered + 1 }, [{ _tag: 'Discard', task }]]
  return [{ ...state, live: state.live.set(task, { stage: 'ready', oldest }) }, []]
}

const onFailed = (state: OverlapState, task: number): OverlapState => {
  if (state.live.get(task)?.stage !== 'sampling') return state
  const next = drop(state, task, 'failed')
  return isTooMuch(next) ? { ...next, mode: 'halted' } : next
}

const onTrained = (state: OverlapState): OverlapState => {
  const trained = state.live.filter(({ stage }) => stage === 'training')
  if (trained.size === 0) throw new RangeError('overlapStep: nothing is being learned from, so nothing can have been')
  const { counts, version, live } = state
  return {
    ...state,
    version: version + 1,
    filtered: 0,
    live: live.deleteAll(trained.keys()),
    counts: { ...counts, trained: counts.trained + trained.size },
  }
}

const onPushed = (state: OverlapState, version: number): OverlapState => {
  if (state.pushing !== version) throw new RangeError(`overlapStep: version ${version} was not on its way`)
  return { ...state, serving: version, pushing: null }
}

const moved = (state: OverlapState, event: OverlapEvent): Moved => {
  switch (event._tag) {
    case 'Begun':
      return [state, []]
    case 'Sampled':
      return onSampled(state, event)
    case 'Failed':
      return [onFailed(state, event.task), []]
    case 'Trained':
      return [onTrained(state), []]
    case 'Pushed':
      return [onPushed(state, event.version), []]
    case 'Stopped':
      return [state.mode === 'running' ? { ...state, mode: 'stopped' } : state, []]
  }
}

/** Calls off what is sampled, where nothing goes on. Its tasks stay open. */
const callOff = (state: OverlapState): readonly OverlapAction[] =>
  [...state.live].flatMap(([task, { stage }]) => (stage === 'sampling' ? [{ _tag: 'Cancel' as const, task }] : []))

/** Drops what no step can learn from in time. */
const evict = (state: OverlapState): Moved => {
  if (state.rules.stale === 'correct') return [state, []]
  const first = nextVersion(state)
  const late = [...state.live].filter(
    ([, task]) => task.stage !== 'training' && ageOf(task) + state.rules.maxLag < first,
  )
  return [
    late.reduce((next, [task]) => drop(next, task, 'stale'), state),
    late.map(([task, { stage }]) => ({ _tag: stage === 'sampling' ? 'Cancel' : 'Discard', task })),
  ]
}

const push = (state: OverlapState): Moved =>
  state.pushing === null && state.serving < state.version
    ? [{ ...state, pushing: state.version }, [{ _tag: 'Push', version: state.version }]]
    : [state, []]

const hasTask = ({ again, next, rules }: OverlapState): boolean => again.length > 0 || next < rules.tasks

const mayDraw = (state: OverlapState): boolean => {
  const { rules, live, version, serving } = state
  if (!hasTask(state) || live.size >= Math.min(rules.ahead, (rules.lastVersion - version) * rules.groups)) return false
  const [first, deadline] = [nextVersion(state), serving + rules.maxLag]
  if (deadline < first) return false
  if (rules.stale === 'drop') return state.pushing === null // newer weights are on their way: what is drawn before them is dropped sooner
  return rules.stale === 'correct' || isInTime([...deadlines(state), deadline], first, rules.groups)
}

const draw = (state: OverlapState): Moved => {
  const drawn: number[] = []
  let next = state
  while (mayDraw(next)) {
    const task = next.again[0] ?? next.next
    drawn.push(task)
    next = {
      ...next,
      ...(next.again.length > 0 ? { again: next.again.slice(1) } : { next: task + 1 }),
      live: next.live.set(task, { stage: 'sampling', since: next.serving }),
    }
  }
  return [next, drawn.map((task) => ({ _tag: 'Sample', task }))]
}

/** The groups of the next step: those that are oldest, or nothing as long as they are to be waited for. */
const chosen = (state: OverlapState): readonly TrainedTask[] => {
  const { live, rules, version } = state
  if (isTraining(state) || version >= rules.lastVersion) return []
  const ready = [...live].flatMap(([task, each]) => (each.stage === 'ready' ? [{ task, oldest: each.oldest }] : []))
  const isAll = ready.length === live.size
  if (ready.length < rules.groups && !(isAll && !hasTask(state))) return []
  const taken = ready.sort((a, b) => a.oldest - b.oldest || a.task - b.task).slice(0, rules.groups)
  const rest = deadlines(state, new Set(taken.map(({ task }) => task)))
  if (rules.stale === 'wait' && !isAll && !isInTime(rest, version + 1, rules.groups)) return []
  return taken.sort((a, b) => a.task - b.task).map(({ task, oldest }) => ({ task, lag: version - oldest }))
}

const train = (state: OverlapState): Moved => {
  const tasks = chosen(state)
  if (tasks.length === 0) return [state, []]
  const live = tasks.reduce(
    (map, { task, lag }) => map.set(task, { stage: 'training', oldest: state.version - lag }),
    state.live,
  )
  return [{ ...state, live }, [{ _tag: 'Train', tasks }]]
}

/**
 * What follows from an event.
 *
 * A step learns from `groups` groups, the oldest first, and gives the next version, which goes to the engine as soon as no other is on its
 * way. Tasks are drawn while fewer than `ahead` are underway, and only if the next step is at most `maxLag` updates after the version that
 * is served. With `wait` the lag of a task is bounded before it is drawn: with the tasks of all
 * deadlines `d` (served version plus `maxLag`) at most `(d - v + 1) * groups`, for the version `v` of the next step, the oldest-first order meets all
 * of them, as long as the trainer goes on only if what it leaves can still be met. An engine that samples with older weights than it was given makes
 * groups that come too late in spite of that: they are dropped.
 *
 * Errors   throws RangeError for events that cannot be: `Trained` without training, `Pushed` of what was not pushed.
 * Effects  none.
 * Cost     `ahead * log(ahead)` for each event, and for each task that is drawn.
 * Source   AReaL's staleness control (Fu et al. 2025, arXiv:2505.24298, equation 3), which bounds the count of what was drawn; here each deadline is
 *          bounded, so that no group is learned from too late whatever finishes first. prime-rl's `max_off_policy_steps` is `drop`.
 */
export const overlapStep = (state: OverlapState, event: OverlapEvent): Moved => {
  const [next, actions] = moved(state, event)
  if (next.mode !== 'running') return [next, state.mode === 'running' ? [...actions, ...callOff(next)] : actions]
  return [evict, train, evict, push, draw].reduce<Moved>(
    ([current, todo], plan) => {
      const [after, more] = plan(current)
      return [after, [...todo, ...more]]
    },
    [next, actions],
  )
}

/** Whether nothing more comes: the last step is done, or all tasks have ended. */
export const isOver = (state: OverlapState): boolean =>
  state.version >= state.rules.lastVersion || (state.live.size === 0 && !hasTask(state))
