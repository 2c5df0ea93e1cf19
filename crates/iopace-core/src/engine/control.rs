//! Changes of a live device, as they are asked for.

use super::{Control, ControlError, Engine};
use crate::shadow::Recording;
use crate::time::Instant;

impl Engine {
    /// Changes the device while it runs. Takes effect between two requests.
    ///
    /// # Errors
    /// See [`ControlError`]; nothing is changed then.
    pub fn control(&mut self, now: Instant, control: Control) -> Result<(), ControlError> {
        self.advance(now);
        self.is_changed = true;
        if let Control::Memory(budget) = &control
            && let Some(shadow) = &mut self.shadow
        {
            shadow.control(Control::Memory(*budget));
        }
        let is_device = matches!(
            control,
            Control::Insert(..)
                | Control::Configure(..)
                | Control::Destroy
                | Control::Slots(_)
                | Control::Window(_)
                | Control::WindowPolicy(_)
                | Control::Pace(_)
        );
        let result = self.change(control);
        if is_device && result.is_ok() {
            self.restart_shadow(false);
        }
        result
    }

    fn change(&mut self, control: Control) -> Result<(), ControlError> {
        match control {
            Control::Insert(..) if self.inserted => {
                Err(ControlError::AlreadyInserted(self.sched.algorithm.name))
            }
            Control::Configure(..) | Control::Destroy if !self.inserted => {
                Err(ControlError::NotInserted)
            }
            Control::Insert(algorithm, params) => self.exchange(algorithm, params, true),
            Control::Configure(algorithm, changes) => self.configure(algorithm, &changes),
            Control::Destroy => self.exchange(self.base, self.base.defaults(), false),
            Control::Slots(nr_requests) => {
                self.admit.set_slots(nr_requests);
                Ok(())
            }
            Control::Window(depth) => {
                self.window_max = depth;
                self.window.set_depth(depth);
                Ok(())
            }
            Control::WindowPolicy(policy) => {
                self.set_window(policy);
                Ok(())
            }
            Control::Pace(policy) => {
                self.set_pace(policy);
                Ok(())
            }
            Control::Memory(budget) => {
                self.set_budget(&budget);
                Ok(())
            }
            Control::SetGroup(id, parent, settings) => {
                self.set_group(id, parent, &settings);
                Ok(())
            }
            Control::Recommend(plan) => {
                self.recommend(plan);
                Ok(())
            }
            Control::RecommendGroup(id, settings) => {
                self.recommend_group(id, settings);
                Ok(())
            }
            Control::Record(most_count) => {
                let now = self.now;
                self.recording = most_count.map(|most| Box::new(Recording::new(now, most)));
                Ok(())
            }
            Control::RemoveGroup(id) => {
                self.remove_group(id);
                Ok(())
            }
        }
    }
}
