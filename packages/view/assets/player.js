/** Plays a rollout back: its turns and tokens appear one after the other. */
import { h } from './dom.js'
import { whole } from './format.js'

const SPEEDS = [1, 2, 4, 8, 16, 32]

/** Tokens of the model that appear in a second at speed 1, and seconds of any other turn. */
const TOKENS = 20
const PAUSE = 0.8

/** The moments of a rollout: each shows one more token, or one more turn of another author. */
const momentsOf = (turns) =>
  turns.flatMap(({ tokens }, turn) =>
    tokens === undefined || tokens.length === 0
      ? [{ turn, shown: 0, seconds: PAUSE }]
      : tokens.map((_, token) => ({ turn, shown: token + 1, seconds: 1 / TOKENS })),
  )

/** Shows the transcript up to a moment; `null` shows all of it. */
const showUpTo = (transcript, moment) => {
  for (const [at, article] of [...transcript.children].entries()) {
    const isPast = moment === null || at < moment.turn
    article.hidden = !isPast && at > moment.turn
    article.classList.toggle('is-playing', !isPast && at === moment.turn)
    for (const token of article.querySelectorAll('.tok[data-token]'))
      token.classList.toggle('later', !isPast && Number(token.dataset.token) >= moment.shown)
  }
}

/**
 * Makes the controls that play a rollout.
 *
 * @param {object} options
 * @param {readonly object[]} options.turns
 * @param {HTMLElement} options.transcript
 * @param {(speed: number) => void} options.next opens and plays the next rollout
 * @param {AbortSignal} options.signal
 */
export const player = ({ turns, transcript, next, signal }) => {
  const moments = momentsOf(turns)
  let at = moments.length
  let [isPlaying, last, spent] = [false, 0, 0]
  const button = h('button', { title: 'Play or pause (p)' })
  const speed = h(
    'select',
    { 'aria-label': 'Speed' },
    SPEEDS.map((each) => h('option', { value: String(each) }, `${each}×`)),
  )
  const range = h('input', { type: 'range', min: 0, max: moments.length, step: 1, 'aria-label': 'Position' })
  const place = h('span', { class: 'muted small' })
  const goesOn = h('input', { type: 'checkbox' })
  const draw = () => {
    const moment = at === moments.length ? null : (moments[at - 1] ?? { turn: -1, shown: 0 })
    showUpTo(transcript, moment)
    range.value = String(at)
    button.textContent = isPlaying ? '❚❚ Pause' : '▶ Play'
    const turn = moment === null ? turns.length : moment.turn + 1
    place.textContent = `turn ${whole(turn)} of ${whole(turns.length)}`
  }
  const pause = () => {
    isPlaying = false
    draw()
  }
  const frame = (now) => {
    if (!isPlaying || signal.aborted) return
    spent += ((now - last) / 1000) * Number(speed.value)
    last = now
    while (at < moments.length && spent >= moments[at].seconds) spent -= moments[at++].seconds
    if (at < moments.length) {
      draw()
      requestAnimationFrame(frame)
    } else {
      pause()
      if (goesOn.checked) next(Number(speed.value))
    }
  }
  const play = () => {
    if (at === moments.length) at = 0
    ;[isPlaying, last, spent] = [true, performance.now(), 0]
    draw()
    requestAnimationFrame(frame)
  }
  const toggle = () => (isPlaying ? pause() : play())
  /** Moves to the end of the next turn, or of the one before. */
  const turnBy = (by) => {
    const open = at === 0 ? -1 : moments[at - 1].turn
    const wanted = Math.max(-1, Math.min(turns.length - 1, open + by))
    at = moments.findLastIndex(({ turn }) => turn <= wanted) + 1
    pause()
  }
  button.addEventListener('click', toggle)
  range.addEventListener('input', () => {
    at = Number(range.value)
    pause()
  })
  draw()
  return {
    element: h(
      'div',
      { class: 'tools player', role: 'group', 'aria-label': 'Playback' },
      button,
      speed,
      range,
      place,
      h('label', {}, goesOn, 'Go on with the next rollout'),
    ),
    toggle,
    turnBy,
    /** Plays from the start, as the rollout before was played. */
    goOn: (given) => {
      speed.value = String(given)
      goesOn.checked = true
      at = 0
      play()
    },
  }
}
