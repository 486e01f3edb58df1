/** The views of checkpoints: what moved a token, forks, the chat and the lab, in real browsers. */
import type { Page } from 'playwright-core'
import { expect, it } from 'vitest'
import {
  axeFaults,
  describeInBrowsers,
  fillNumber,
  openRollout,
  PHONE,
  usePages,
  useTheme,
} from '../../../../test/kit/viewPages.js'
import { useViewedRuns } from '../../../../test/kit/viewServer.js'

const view = useViewedRuns({
  first: { steps: 4, prompts: 2, group: 4, trajectories: 8, checkpointEvery: 2, evalEvery: 4, keepMegabytes: 64 },
})

const rows = (page: Page, name: string) => page.getByRole('region', { name }).locator('tbody tr')

/** Chooses the third token of the first rollout. */
const chooseToken = async (page: Page): Promise<void> => {
  await openRollout(page, 0)
  await page.locator('.tok[data-token="2"]').click()
}

const say = async (page: Page, text: string): Promise<void> => {
  await page.getByLabel('Message').fill(text)
  await page.keyboard.press('Enter')
  await expect.poll(() => page.getByRole('button', { name: 'Send' }).isEnabled()).toBe(true)
}

describeInBrowsers('pages of checkpoints', (browser) => {
  const pages = usePages(() => view.origin(), browser)

  it('show why a token moved, with the keyboard, and which rollouts moved it', async () => {
    const page = await pages.visit('#/run/first/rollouts')
    await chooseToken(page)
    await page.keyboard.press('w')
    await expect.poll(() => rows(page, 'Probability by checkpoint').count()).toBe(3)
    expect(await page.locator('figure', { hasText: 'Probability by checkpoint' }).count()).toBe(1)
    await page.getByText('Which rollouts moved it?').click()
    await page.getByRole('button', { name: 'Compute' }).click()
    await expect.poll(() => rows(page, 'Rollouts that moved the token most').count()).toBe(8)
    await page.getByText(/Linearity (0\.9|1)/).waitFor()
  })

  it('fork a rollout, with rewards from the environment', async () => {
    const page = await pages.visit('#/run/first/rollouts')
    await chooseToken(page)
    await page.getByText('Fork the rollout here').click()
    await fillNumber(page, 'Completions', 3)
    await page.getByRole('button', { name: 'Fork here' }).click()
    await expect.poll(() => page.locator('.forks li').count()).toBe(4)
    expect(await page.locator('.forks li').first().innerText()).toContain('environment')
    expect(await page.locator('.forks li strong').allInnerTexts()).toEqual(
      Array(3).fill(expect.stringMatching(/^Reward /)),
    )
  })

  it('chat with a checkpoint, and show what fails', async () => {
    const page = await pages.visit('#/run/first/chat')
    await fillNumber(page, 'New tokens', 6)
    await say(page, 'What is 1 + 2?')
    expect(await page.locator('.chat .by-model .tok').count()).toBeGreaterThan(2)
    expect(await page.locator('.chat li').allInnerTexts()).toHaveLength(2)
    await fillNumber(page, 'New tokens', 0)
    await say(page, 'And 2 + 2?')
    expect(await page.locator('.chat [role="alert"]').innerText()).toContain('maxNewTokens')
    const logged = browser === 'chromium' ? [expect.stringContaining('400')] : [] // Firefox logs no refused request
    expect(pages.takeProblems()).toEqual(logged)
  })

  it('compare checkpoints, replay a step and score a text in the lab', async () => {
    const page = await pages.visit('#/run/first/lab')
    await fillNumber(page, 'Tasks', 3)
    await page.getByRole('button', { name: 'Compare' }).click()
    await page.getByText(/95 % interval/).waitFor()
    expect(await rows(page, 'Scores of the checkpoints').count()).toBe(2)
    await page.getByLabel('Change').selectOption('learner.learningRate')
    await fillNumber(page, 'New value', 0.05)
    await page.getByRole('button', { name: 'Replay' }).click()
    const step = page.getByRole('region', { name: /Step 3 as recorded/ })
    await expect
      .poll(() => step.locator('tr', { hasText: 'learningRate' }).innerText())
      .toMatch(/0\.01\s+0\.01\s+0\.05/)
    expect(await step.locator('tr', { hasText: 'loss' }).first().innerText()).toContain('equal')
    await page.getByLabel('Prompt').fill('What is 1 + 1?')
    await page.getByLabel('Reply').fill('<answer>2')
    await page.getByRole('button', { name: 'Compute' }).click()
    await expect.poll(() => rows(page, 'Probability by checkpoint').count()).toBe(3)
  })

  it('have no accessibility fault, light or dark, and fit a phone', async () => {
    for (const theme of ['light', 'dark'] as const) {
      const page = await pages.visit('#/run/first/rollouts', { bypassCSP: true })
      await useTheme(page, theme)
      await chooseToken(page)
      await page.keyboard.press('w')
      await expect.poll(() => rows(page, 'Probability by checkpoint').count()).toBe(3)
      await page.getByText('Fork the rollout here').click()
      await page.getByText('Which rollouts moved it?').click()
      expect(await axeFaults(page), `token ${theme}`).toEqual([])
      for (const part of ['lab', 'chat']) {
        const other = await pages.visit(`#/run/first/${part}`, { bypassCSP: true })
        await useTheme(other, theme)
        expect(await axeFaults(other), `${part} ${theme}`).toEqual([])
      }
    }
    for (const part of ['lab', 'chat']) {
      const page = await pages.visit(`#/run/first/${part}`, PHONE)
      const { width = 0 } = page.viewportSize() ?? {}
      expect(await page.evaluate('document.documentElement.scrollWidth'), part).toBeLessThanOrEqual(width)
    }
  })
})
