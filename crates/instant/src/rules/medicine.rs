//! Rule for questions about medicines, about what is toxic to pets, and for a diagnosis: refers to those who know. Not for
//! emergencies, which are recognised before.

use super::Setting;
use crate::act::Act;
use crate::template::Slots;

pub(super) fn medicine(slots: &Slots, setting: &Setting<'_>) -> Option<Vec<Act>> {
    let text = if slots.text("of") == "pet" {
        setting.say(
            "不行，这对宠物有毒。如果已经吃了，马上联系兽医。".to_owned(),
            "No, that is toxic to pets. If it has eaten some, call a vet at once.".to_owned(),
        )
    } else if slots.text("of") == "pet_harm" {
        setting.say(
            "是的，这对宠物有毒。如果已经吃了，马上联系兽医。".to_owned(),
            "Yes, that is toxic to pets. If it has eaten some, call a vet at once.".to_owned(),
        )
    } else if slots.text("of") == "diagnosis" {
        setting.say(
            "我没法判断病情，请咨询医生，或者去医院看看。".to_owned(),
            "I can't judge that. Please ask a doctor.".to_owned(),
        )
    } else {
        setting.say(
            "用药的事我不能给建议，请看药品说明书，或者咨询医生、药师。".to_owned(),
            "I can't advise on medicines. Please check the package leaflet, or ask a doctor or pharmacist."
                .to_owned(),
        )
    };
    Some(Setting::answer(text))
}
